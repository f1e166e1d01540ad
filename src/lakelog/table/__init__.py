"""One logical table: joins the log store and the file store."""
