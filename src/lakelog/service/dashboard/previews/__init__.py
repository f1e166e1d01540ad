"""Previews of data (rows, files, log records), read in processes with limits on memory and time."""
