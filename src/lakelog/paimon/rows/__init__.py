"""BinaryRow, buckets, partitions, row kinds."""
