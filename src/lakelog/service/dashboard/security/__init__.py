"""Who may ask the dashboard for what; all of it stands in front of the routes, which know nothing of HTTP's dangers."""
