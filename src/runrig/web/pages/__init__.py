"""The pages and their routes. All of them work without script."""
