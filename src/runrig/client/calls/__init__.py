"""All calls to a server, written once for both clients; one module per kind of object."""
