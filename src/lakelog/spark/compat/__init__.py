"""What each release of PySpark does itself, and the other means by which lakelog does the rest. Nothing else asks for a
version of Spark."""
