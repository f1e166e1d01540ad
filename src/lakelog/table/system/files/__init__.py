"""System tables of data files, manifests, buckets and partitions."""
