"""CHECK constraints of a table, as options of its schema, which other readers of the format ignore.

``check.<name>`` is the condition. ``check.<name>.on-violation`` and ``check.<name>.existing-rows`` have a default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidOption

CHECK_PREFIX: Final = "check."
FAIL: Final = "fail"
REJECT: Final = "reject"
WARN: Final = "warn"
ACTIONS: Final = (FAIL, REJECT, WARN)
"""What a write does with a row that violates a constraint; the first is the default."""
CHECKED: Final = "checked"
NOT_CHECKED: Final = "not-checked"
_NAME: Final = re.compile(r"[^\W\d][\w-]{0,99}")
_CHOICES: Final = {"on-violation": ACTIONS, "existing-rows": (CHECKED, NOT_CHECKED)}


@dataclass(frozen=True)
class Constraint:
    """A CHECK constraint: its condition in SQL, the action on a violation, and whether old rows were checked."""

    name: str
    condition: str
    action: str = FAIL
    is_valid: bool = True

    def to_options(self) -> dict[str, str]:
        """The options of the schema that hold it."""
        key = f"{CHECK_PREFIX}{self.name}"
        more = {} if self.is_valid else {f"{key}.existing-rows": NOT_CHECKED}
        return {key: self.condition, f"{key}.on-violation": self.action, **more}

    def to_text(self) -> str:
        """The clause of ALTER TABLE that adds it, after the name."""
        return f"CHECK ({self.condition}) ON VIOLATION {self.action.upper()}{'' if self.is_valid else ' NOT VALID'}"


def has_constraints(options: Mapping[str, str]) -> bool:
    """True if a table has any constraint."""
    return any(key.startswith(CHECK_PREFIX) for key in options)


def without_constraints(options: Mapping[str, str]) -> dict[str, str]:
    """The other options of a table."""
    return {key: value for key, value in options.items() if not key.startswith(CHECK_PREFIX)}


def constraints_of(options: Mapping[str, str]) -> tuple[Constraint, ...]:
    """The constraints of a table, by name. Raises InvalidOption for a wrong key or value."""
    parts: dict[str, dict[str, str]] = {}
    for key, value in options.items():
        if key.startswith(CHECK_PREFIX):
            name, _, part = key.removeprefix(CHECK_PREFIX).partition(".")
            if not _NAME.fullmatch(name) or (part and part not in _CHOICES):
                raise InvalidOption(
                    f"option '{key}' is none of a constraint: write '{CHECK_PREFIX}<name>' = '<condition>', and "
                    f"'{CHECK_PREFIX}<name>.on-violation'. A name has letters, digits, _ and -"
                )
            if part and value not in _CHOICES[part]:
                raise InvalidOption(f"option '{key}' = '{value}' must be one of: {', '.join(_CHOICES[part])}")
            parts.setdefault(name, {})[part] = value
    for name, values in parts.items():
        if "" not in values:
            raise InvalidOption(f"option '{CHECK_PREFIX}{name}' with the condition of constraint '{name}' is missing")
    return tuple(
        Constraint(name, values[""], values.get("on-violation", FAIL), values.get("existing-rows") != NOT_CHECKED)
        for name, values in sorted(parts.items())
    )
