"""The Spark data source, sessions and engine; the only importer of pyspark."""
