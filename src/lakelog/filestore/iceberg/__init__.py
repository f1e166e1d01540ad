"""Apache Iceberg metadata beside the snapshots, so that Iceberg's readers read the data files (RFC 19)."""
