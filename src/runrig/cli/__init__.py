"""The command line. It talks HTTP to the server and imports none of it, except in commands that start one."""
