"""From the models of GTCluster and GTJob to Kubernetes manifests. All functions are pure."""
