"""Messages between a terminal, its worker and the readers of results."""
