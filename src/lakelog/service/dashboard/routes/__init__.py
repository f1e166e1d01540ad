"""One file per page: its HTML and its JSON, rendered from the same view."""
