"""The file store: an LSM tree per bucket, in files of the Apache Paimon format, changed by snapshots."""
