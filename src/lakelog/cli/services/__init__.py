"""Commands that serve: the dashboard with its users, and metrics."""
