"""The real-time trigger, on Spark's Kafka connector."""
