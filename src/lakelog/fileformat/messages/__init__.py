"""Avro messages without a header: their schemas, and columns ⇄ bytes."""
