"""What talks to a server: the command line is made of it."""
