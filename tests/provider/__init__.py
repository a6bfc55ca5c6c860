"""A real provider of identities for tests: Django OAuth Toolkit, as a process on loopback."""
