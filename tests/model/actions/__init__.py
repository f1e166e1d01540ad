"""Actions of histories, by what they change."""

from model.actions import actors, changes, maintenance, refs, replacements, rows, schema  # noqa: F401
