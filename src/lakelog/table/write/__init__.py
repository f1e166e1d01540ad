"""User-facing writes: table writer, overwrite, replaced files, rescale, clustering, log materializer."""
