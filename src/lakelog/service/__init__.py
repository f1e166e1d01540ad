"""Jobs on top of a lake: dashboard, terminal, optimizer, metrics, doctor, demo, and the servers that it starts."""
