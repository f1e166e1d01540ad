"""Frozen values of a table: the logical table, attempts, epochs, registrations, log state; picklable."""
