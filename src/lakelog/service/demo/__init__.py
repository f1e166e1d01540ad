"""The demo: a year of flights through one table."""
