"""The log of a table: positions, records, gaps, named readers, writers and their leases."""
