"""Connections that stay open: event streams, tails of logs, terminals."""
