"""The functions of the server: commands and queries of users, and the loop that makes the cluster follow."""
