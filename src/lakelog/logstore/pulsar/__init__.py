"""Apache Pulsar as the log."""
