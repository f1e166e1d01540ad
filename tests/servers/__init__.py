"""Real servers for tests, on loopback and free ports, started by Python alone."""
