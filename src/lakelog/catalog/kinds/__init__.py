"""One file per kind of catalog."""
