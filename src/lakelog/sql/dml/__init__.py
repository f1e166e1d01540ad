"""UPDATE, DELETE, MERGE and REPLACE WHERE as queries."""
