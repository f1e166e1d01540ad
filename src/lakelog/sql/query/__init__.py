"""Planning of a SELECT: references, column pruning, predicate pushdown, metadata queries."""
