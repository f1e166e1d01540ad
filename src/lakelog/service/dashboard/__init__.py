"""The dashboard: pages, a JSON API behind them, a terminal. Port 1630, this machine only, unless told otherwise."""
