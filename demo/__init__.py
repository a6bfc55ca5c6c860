"""Stories that run for real: a server, processes, and the commands that people type."""
