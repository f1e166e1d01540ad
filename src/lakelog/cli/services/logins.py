"""The options of commands that serve users: the address, the ways to log in, TLS, and further catalogs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from lakelog.cli.console.connection import warehouse_config
from lakelog.cli.services.secret_file import read_token
from lakelog.errors import InvalidRequest

_SHORTEST: Final = 20
_EXISTING: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

F = TypeVar("F", bound=Callable[..., Any])


catalog_option: Final = click.option(
    "--catalog", "catalogs", multiple=True, metavar="NAME=DIR", help="Additional catalog; repeatable."
)


def address_options(host: str, port: int) -> Callable[[F], F]:
    """The options ``--host`` and ``--port`` with these defaults."""

    def add(command: F) -> F:
        text = "Port; 0 picks a free port."
        ports = click.IntRange(0, 65_535)
        command = click.option("--port", type=ports, default=port, show_default=True, help=text)(command)
        text = "Listen address. A non-loopback address needs a login and TLS."
        return click.option("--host", default=host, show_default=True, help=text)(command)

    return add


def state_option(contents: str) -> Callable[[F], F]:
    """The option ``--state``, a directory for these contents."""
    return click.option(
        "--state",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("~/.local/state/lakelog"),
        show_default=True,
        help=f"Directory for {contents}.",
    )


def login_options(variable: str) -> Callable[[F], F]:
    """The options ``--users-file``, ``--token-file`` (also in an environment variable), TLS and ``--catalog``."""

    def add(command: F) -> F:
        for option in reversed(
            (
                catalog_option,
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


def tables_of(warehouse: str, catalogs: tuple[str, ...]) -> dict[str, Any]:
    """The arguments of a service's settings that name its tables. Raises click.BadParameter for a catalog."""
    place = warehouse_config(warehouse)
    return {
        "warehouse": place.warehouse,
        "storage_options": place.reached.storage,
        "catalog_options": place.reached.catalog,
        "catalogs": {**place.catalogs, **dict(map(_catalog_of, catalogs))},
    }


def _catalog_of(text: str) -> tuple[str, dict[str, str]]:
    """The name and the warehouse of ``NAME=DIR``. Raises click.BadParameter."""
    name, equals, place = text.partition("=")
    if not equals or not name or not place:
        raise click.BadParameter(f"'{text}' is not NAME=DIR", param_hint="--catalog")
    return name, {"warehouse": place}
