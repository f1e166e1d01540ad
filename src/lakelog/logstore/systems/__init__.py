"""The parts of this kind, one file each; loaded by name."""
