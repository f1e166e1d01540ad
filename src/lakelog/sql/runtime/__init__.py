"""Runtime of statements: context, ports, privileges, results."""
