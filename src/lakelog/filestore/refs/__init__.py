"""Tags, branches, rollback."""
