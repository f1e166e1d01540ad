"""Replaces secrets in the schemas of tables by references (``lakelog secrets migrate``)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidOption, InvalidRequest
from lakelog.io.secrets import secret_value
from lakelog.lake import Lake
from lakelog.options.compatibility import PROPERTIES_PREFIX
from lakelog.options.log import PLAIN_SECRETS
from lakelog.options.secrets import REFERENCE, is_known_reference
from lakelog.paimon.schema.changes import RemoveOption, SchemaChange, SetOption
from lakelog.table.model.log_options import is_plain_secret
from lakelog.table.open import identifier_of

_FILE: Final = f"{REFERENCE}file:"


@dataclass(frozen=True)
class PlainSecret:
    """A secret in the newest schema of a table, by the key of its option, and the reference that replaces it.

    ``fault`` says why the reference does not have this value here, or "". It is without the value.
    """

    table: str
    key: str
    reference: str
    fault: str


def plain_secrets(lake: Lake, tables: Iterable[str], pattern: str) -> Iterator[PlainSecret]:
    """The plain secrets of tables. ``pattern`` is a reference, with {database}, {table} and {key}.

    Raises InvalidOption for a pattern that is no reference, NotFound.
    """
    for name in tables:
        for key, value in sorted(lake.table(name).options.items()):
            if is_plain_secret(key, value):
                reference = _reference(pattern, name, key)
                yield PlainSecret(name, key, reference, _fault(key, value, reference))


def write_files(lake: Lake, secrets: Iterable[PlainSecret]) -> None:
    """Creates missing files of the references, readable by this user only. Raises InvalidRequest."""
    for secret in secrets:
        path = secret.reference.removeprefix(_FILE)
        if secret.reference == path:
            raise InvalidRequest(f"--write-files needs references to files, and not '{secret.reference}'")
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue  # ``plain_secrets`` compares its value
        except OSError as failed:
            raise InvalidRequest(f"the file '{path}' cannot be created: {failed.strerror}") from None
        with open(handle, "w", encoding="utf-8") as file:
            file.write(lake.table(secret.table).options[secret.key])


def replace_secrets(lake: Lake, secrets: Iterable[PlainSecret]) -> None:
    """Creates a schema of each table with the references. Raises InvalidOption if one does not have the same value."""
    by_table: dict[str, list[PlainSecret]] = {}
    for secret in secrets:
        if secret.fault:
            raise InvalidOption(f"nothing was changed: '{secret.key}' of table {secret.table}: {secret.fault}")
        by_table.setdefault(secret.table, []).append(secret)
    for name, ours in by_table.items():
        table = lake.table(name)
        changes: list[SchemaChange] = [SetOption(secret.key, secret.reference) for secret in ours]
        if PLAIN_SECRETS.key in table.options:
            changes.append(RemoveOption(PLAIN_SECRETS.key))
        table.alter(*changes)


def _reference(pattern: str, table: str, key: str) -> str:
    if not is_known_reference(pattern):
        raise InvalidOption(f"'{pattern}' is no reference to a secret: write 'secret:env:NAME' or 'secret:file:/path'")
    identifier = identifier_of(table)
    name = key.removeprefix(PROPERTIES_PREFIX)
    parts = {"{database}": identifier.database, "{table}": identifier.table, "{key}": name}
    is_variable = pattern.startswith(f"{REFERENCE}env:")
    for placeholder, text in parts.items():
        fitting = re.sub(r"\W", "_", text).upper() if is_variable else text
        pattern = pattern.replace(placeholder, fitting)
    return pattern


def _fault(key: str, value: str, reference: str) -> str:
    try:
        return "" if secret_value(key, reference) == value else f"'{reference}' has another value than the table"
    except InvalidOption as why:
        return str(why)
