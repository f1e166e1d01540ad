"""System tables of snapshots, tags and branches."""
