"""Endless reads: tails, their positions, the normalizer."""
