"""Users, passwords and sessions."""
