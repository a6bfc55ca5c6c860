"""Our own door."""
