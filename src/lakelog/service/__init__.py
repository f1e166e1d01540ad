"""Jobs on top of a lake: the demo and the real broker that it can start."""
