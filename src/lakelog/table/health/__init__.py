"""Read-only: statistics of a table, findings, recommended actions, score."""
