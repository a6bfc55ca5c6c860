"""Known outcomes: cases with their answers as data, turned into Kubernetes manifests and run as `simulate` runs them."""
