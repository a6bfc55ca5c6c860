"""HTTP: checks requests and permissions, and returns the service's values as JSON. It decides nothing."""
