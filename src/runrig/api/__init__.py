"""HTTP: checks who asks and what, and shows values of the service as JSON.  Nothing is decided here."""
