"""What the server does: commands and queries of people, and the loop that makes the cluster follow."""
