"""One file a page: its HTML and its JSON, drawn from the same view."""
