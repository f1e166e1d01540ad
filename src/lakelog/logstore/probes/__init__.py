"""Looks at the server of a log, one file each log system."""
