"""The web page: HTML rendered here, with a little script for live parts. Loads nothing from other sites."""
