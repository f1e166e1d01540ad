"""The dashboard: pages, their JSON API, and a terminal. Default: port 1630, on this machine only."""
