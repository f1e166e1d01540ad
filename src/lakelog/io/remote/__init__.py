"""Clients of servers that a user names: databases, and servers that speak HTTP."""
