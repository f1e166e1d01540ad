"""The life of a topic, one file each log system: made with the table, found again, kept, dropped."""
