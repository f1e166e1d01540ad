"""Common parts of the commands: connection, names, output, process."""
