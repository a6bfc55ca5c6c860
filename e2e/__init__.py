"""A real Kubernetes control plane on loopback, for tests: see docs/kubernetes-tests.md."""
