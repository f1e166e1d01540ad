"""Messages between a terminal, its worker and those who read the results."""
