"""What a lake prints and returns: results of statements, rows as plain values, DESCRIBE."""
