"""The door of the reference client: the routes that it calls, and those that the specifications name."""
