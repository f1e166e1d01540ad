"""The table formats that run workload W, one file each; only the chosen one is imported, in its own Python."""
