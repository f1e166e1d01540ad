"""``make chaos``: streams that write and read a table while all around them is killed, and a count at the end."""
