"""What the end-to-end tests share: a cluster from somewhere, the project's image, kubectl, helm and diagnostics."""
