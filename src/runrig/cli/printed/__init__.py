"""The JSON output of the command line, from the server's answers.

Scripts depend on it: the fields of the osmo client come first, then runrig's. Times are UTC without a zone.
"""
