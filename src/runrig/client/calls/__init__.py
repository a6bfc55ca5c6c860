"""What can be asked of a server, once for both clients: a module for each kind of object."""
