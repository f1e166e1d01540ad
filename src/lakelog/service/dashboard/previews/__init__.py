"""Previews of data (rows, files, records of a log), read in processes that may take little memory and time."""
