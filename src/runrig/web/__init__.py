"""The page: what the server knows, to look at.  HTML made here, with a little script for what moves; nothing comes from elsewhere."""
