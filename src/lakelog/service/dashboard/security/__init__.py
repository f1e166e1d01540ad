"""Access control of the dashboard: middleware in front of the routes, which need no checks of their own."""
