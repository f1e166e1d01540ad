"""Memtable, bucket writer, data files, changelog files, index of dynamic buckets."""
