"""The local index of newest rows for lookup joins."""
