"""Column types of the format, their values and casts."""
