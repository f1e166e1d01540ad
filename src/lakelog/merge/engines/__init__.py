"""The merge engines, one file each, independent of each other."""
