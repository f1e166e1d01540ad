"""The engine that runs planned statements on Spark."""
