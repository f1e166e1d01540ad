"""Actions of histories, by what they change."""

from model.actions import rows  # noqa: F401
