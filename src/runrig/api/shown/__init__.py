"""What both doors show in the same way.  Pure."""
