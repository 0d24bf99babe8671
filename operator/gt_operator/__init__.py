"""The Kubernetes operator: makes and keeps what GTCluster and GTJob ask for.

Layers, each importing only from those above it:

    errors, objects, config, merge    words that all others use
    keys, builders                    pure: model -> manifests
    observe                           pure: what the API server shows -> verdicts, plans and status
    queue, store                      what is to be done, and what was last seen
    kube                              the API server: client, watches, leader election
    reconcile                         reads, decides, applies, writes status
    runtime, health, main             the process
"""
