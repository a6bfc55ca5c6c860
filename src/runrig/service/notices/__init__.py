"""Tells users about their workflows: reads the log from a stored position, and delivers off the lock."""
