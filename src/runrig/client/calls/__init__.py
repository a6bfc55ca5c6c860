"""All calls of a server, defined once for both clients: a module per kind of object."""
