"""SQL of both dialects: parses statements, runs lakelog's own, and prepares queries for Spark."""

from __future__ import annotations
