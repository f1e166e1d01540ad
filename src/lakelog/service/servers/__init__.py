"""Local servers: a Kafka broker and a Pulsar server from their jars."""
