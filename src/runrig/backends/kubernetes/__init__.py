"""A Kubernetes cluster in which KAI Scheduler binds whole gangs."""
