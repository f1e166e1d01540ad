"""What statements of dashboard users may do."""
