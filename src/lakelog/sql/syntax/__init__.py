"""Text to tokens, clauses, literals and types; knows no catalog."""
