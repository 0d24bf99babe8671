"""A real Kubernetes cluster on one Linux machine without a container engine.

Each node is a network namespace with its own containerd, kubelet and kube-proxy; the control plane runs in the first
node's namespace. Nothing in it can reach beyond the machine. It needs root, and the programs that
``python -m tests.e2e.localkube setup`` installs and builds.
"""
