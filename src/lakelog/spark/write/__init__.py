"""Writers of the Python data source, shuffle, clustering."""
