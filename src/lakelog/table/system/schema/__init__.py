"""System tables of schemas and options."""
