"""The pages, each with its route.  All of them work without script."""
