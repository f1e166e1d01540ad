"""System tables that read the rows of the table in another form."""
