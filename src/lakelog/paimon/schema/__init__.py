"""Table schemas and their changes."""
