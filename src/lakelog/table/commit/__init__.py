"""The protocol on the driver: decide, heal, seal, write commit markers, take over from dead writers."""
