"""The statements on rows that need no Spark: those whose meaning is certain to be that of Spark."""
