"""Manifests, snapshots, tags, statistics."""
