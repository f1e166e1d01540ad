"""Commands and statements that health messages offer to copy. Names of tables, writers and readers are quoted.

A user with the role write chooses the name of a table, and an administrator pastes the command into a shell.
"""

from __future__ import annotations

import re
import shlex

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def shell_command(*words: str) -> str:
    """A command line of lakelog: ``lakelog compact 'db.a b' --minor``."""
    return shlex.join(["lakelog", *words])


def call_statement(procedure: str, *arguments: str) -> str:
    """A CALL of a procedure with text arguments: ``CALL sys.expire_tags('db.t')``."""
    return f"CALL sys.{procedure}({', '.join(map(_text, arguments))})"


def table_in_sql(name: str) -> str:
    """The full name of a table as SQL text: ``db.t``, or ``db.`a b```."""
    return ".".join(part if _PLAIN.fullmatch(part) else f"`{part}`" for part in name.replace("`", "``").split("."))


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
