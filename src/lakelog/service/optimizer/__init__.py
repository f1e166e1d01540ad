"""Automatic maintenance of tables: finds the needs of each table, runs them within budgets, records every run."""
