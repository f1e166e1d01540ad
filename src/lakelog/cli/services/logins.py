"""The options of commands that serve users: the ways to log in, TLS, and further catalogs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lakelog.cli.services.secret_file import read_token
from lakelog.errors import InvalidRequest

_SHORTEST: Final = 20
_EXISTING: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

F = TypeVar("F", bound=Callable[..., Any])


def login_options(variable: str) -> Callable[[F], F]:
    """The options ``--users-file``, ``--token-file`` (also in an environment variable), TLS and ``--catalog``."""

    def add(command: F) -> F:
        for option in reversed(
            (
                click.option(
                    "--catalog", "catalogs", multiple=True, metavar="NAME=DIR", help="Additional catalog; repeatable."
                ),
                click.option(
                    "--users-file",
                    type=click.Path(dir_okay=False, path_type=Path),
                    help="File with the users who may log in (lakelog users add NAME).",
                ),
                click.option(
                    "--token-file",
                    type=_EXISTING,
                    help=f"File with a login token of at least {_SHORTEST} characters (also {variable}).",
                ),
                click.option("--tls-certificate", type=_EXISTING, help="PEM file."),
                click.option("--tls-key", type=_EXISTING, help="PEM file."),
            )
        ):
            command = option(command)
        return command

    return add


def token_of(file: Path | None, variable: str) -> str | None:
    """The token of a file or of an environment variable, None without one. Raises InvalidRequest for a short one."""
    text = read_token(file) if file else os.environ.get(variable, "").strip()
    if text and len(text) < _SHORTEST:
        raise InvalidRequest(
            f"a token has at least {_SHORTEST} characters: python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    return text or None


def catalog_of(text: str) -> tuple[str, dict[str, str]]:
    """The name and the warehouse of ``NAME=DIR``. Raises click.BadParameter."""
    name, equals, place = text.partition("=")
    if not equals or not name or not place:
        raise click.BadParameter(f"'{text}' is not NAME=DIR", param_hint="--catalog")
    return name, {"warehouse": place}
