"""Keeps the tables of a lake healthy: looks at what they need, runs it within budgets, records every run."""
