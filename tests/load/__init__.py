"""How the server answers when many people use it at once."""
