"""What statements run against: context, ports, privileges, results."""
