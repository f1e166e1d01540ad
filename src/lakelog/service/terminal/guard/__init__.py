"""Rules for the statements of a user: syntax, options and tables."""
