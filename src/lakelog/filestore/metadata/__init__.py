"""Snapshots, schemas, manifests, paths, levels, identity."""
