"""Actions of histories, by what they change."""

from model.actions import actors, changes, constraints, maintenance, refs, refusals, replacements, rows, schema  # noqa: F401
