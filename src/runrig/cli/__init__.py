"""The command line.  It talks HTTP to the server and imports none of it; only commands that start one do."""
