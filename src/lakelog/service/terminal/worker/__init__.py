"""The process that runs the statements of a terminal."""
