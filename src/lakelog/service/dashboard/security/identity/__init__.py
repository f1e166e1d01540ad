"""Identity of a client, and the privilege that a route needs."""
