"""API v1, the API of runrig itself."""
