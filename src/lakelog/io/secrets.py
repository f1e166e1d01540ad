"""Secrets by reference: an option holds ``secret:env:NAME``, and the process that opens the client reads the value.

What is stored, pickled, shown and logged is the reference. A new client reads the secret again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from lakelog.errors import InvalidOption, did_you_mean
from lakelog.options.parts import SECRETS
from lakelog.options.secrets import HIDDEN, REFERENCE, is_reference
from lakelog.options.storage import is_storage_secret


def secret_value(key: str, value: str) -> str:
    """The value of the option ``key``, with the secret in place of a reference; any other text as it is.

    Raises InvalidOption, without the value of any secret, if the provider is unknown or does not have the secret.
    """
    if not is_reference(value):
        return value
    kind, _, name = value.removeprefix(REFERENCE).partition(":")
    if kind not in SECRETS:  # the text may be a password that begins like a reference
        raise InvalidOption(
            f"option '{key}' begins with '{REFERENCE}' and names no provider of secrets"
            f"{did_you_mean(kind, SECRETS, '.') if len(kind) < 20 else '.'} Write 'secret:<provider>:<name>' with one "
            f"of: {', '.join(SECRETS)}"
        )
    try:
        text: str = SECRETS.load(kind)(name)
    except InvalidOption as why:
        raise InvalidOption(f"option '{key}' = '{value}': {why}") from None
    if not text:
        raise InvalidOption(f"option '{key}' = '{value}': the secret is empty")
    return text


def secret_values(options: Mapping[str, str]) -> dict[str, str]:
    """The options with the secrets in place of their references. Raises as ``secret_value``."""
    return {key: secret_value(key, value) for key, value in options.items()}


def without_storage_secrets(text: str, options: Iterable[tuple[str, str]]) -> str:
    """A client's error with asterisks in place of the secrets among the storage options that the client has."""
    for key, value in options:
        if value and is_storage_secret(key):
            with contextlib.suppress(InvalidOption):  # the secret has been removed meanwhile
                text = text.replace(secret_value(key, value), HIDDEN)
    return text
