"""A cluster of Kubernetes, with KAI Scheduler to bind gangs whole."""
