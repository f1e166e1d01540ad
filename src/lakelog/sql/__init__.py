"""SQL of both dialects: parses statements, runs lakelog's own, makes queries ready for Spark."""

from __future__ import annotations
