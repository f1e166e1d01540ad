"""The pages: HTML and JSON, rendered from the same view."""
