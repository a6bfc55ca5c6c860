"""What API and web page share: connections, routes, permissions, and errors as responses.  It has no routes of its own."""
