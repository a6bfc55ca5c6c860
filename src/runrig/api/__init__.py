"""HTTP: who may ask, what is asked, and the values of the service as JSON.  Nothing is decided here."""
