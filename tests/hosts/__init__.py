"""Machines for tests: hosts with file systems, processes and addresses of their own, and the network between them."""
