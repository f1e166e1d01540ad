"""Declares every option once and picks parts by name."""
