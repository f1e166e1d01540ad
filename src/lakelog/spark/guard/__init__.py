"""The allowed statements of dashboard users."""
