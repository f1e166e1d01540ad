"""Keyed state on local disk: sorted runs and a block cache; knows no table."""
