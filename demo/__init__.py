"""Demos that really run: a server, processes, and the commands that a user would type."""
