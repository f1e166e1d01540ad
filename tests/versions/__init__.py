"""Two versions of lakelog on the same tables."""
