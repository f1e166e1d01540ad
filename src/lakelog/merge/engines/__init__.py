"""The merge engines, one file each; they know nothing of each other."""
