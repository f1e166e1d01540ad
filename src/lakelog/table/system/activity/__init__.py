"""System tables of the log, its consumers and maintenance."""
