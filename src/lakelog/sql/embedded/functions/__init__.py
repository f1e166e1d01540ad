"""Functions and operators of expressions in the words of DuckDB, by the kind of their values."""
