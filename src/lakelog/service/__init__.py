"""Services of a lake: dashboard, terminal, optimizer, metrics, doctor, demo, and the demo's servers."""
