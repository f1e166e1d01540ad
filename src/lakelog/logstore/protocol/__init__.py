"""Record headers, control records, healing."""
