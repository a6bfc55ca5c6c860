"""The command line.  It talks HTTP to the server and imports none of it; `up` alone starts one."""
