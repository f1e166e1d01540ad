"""Histories of a table over the whole surface, against a small model of what a user was promised."""
