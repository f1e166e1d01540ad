"""``lakelog users``: the users of the dashboard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa

from lakelog.cli.console.output import PRINTERS, format_option
from lakelog.errors import InvalidRequest
from lakelog.options.registry import Registry
from lakelog.sql.runtime.statement import Privilege

_USERS: Final[Registry[Any]] = Registry(
    "service", {"users": "lakelog.service.access.users:Users"}, extras={"argon2": "dashboard"}
)
_file_option = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("lakelog-users"),
    show_default=True,
    help="Users file.",
)


@click.group()
def users() -> None:
    """Add, remove and list the users of a dashboard (its --users-file)."""


@users.command()
@click.argument("name")
@click.option(
    "--role", type=click.Choice([role.word for role in Privilege]), default=Privilege.READ.word, show_default=True
)
@click.option("--password", help="Password, at least 12 characters. The command prompts for it by default.")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of stdin.")
@_file_option
def add(name: str, role: str, password: str | None, password_stdin: bool, file: Path) -> None:
    """Add user NAME, or change the password and role of NAME."""
    if password is None:
        password = _from_stdin() if password_stdin else _prompt()
    _USERS.create("users", file).put(name, Privilege.of(role), password)
    click.echo(f"{name} may {role}; {file}")


def _from_stdin() -> str:
    line = sys.stdin.readline()
    if not line:
        raise InvalidRequest('stdin ended without a password: pipe it in, as in printf %s "$PASSWORD" | …')
    return line.rstrip("\r\n")


def _prompt() -> str:
    if not sys.stdin.isatty():
        raise InvalidRequest("no terminal to ask for the password: use --password-stdin")
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))


@users.command()
@click.argument("name")
@_file_option
def remove(name: str, file: Path) -> None:
    """Remove user NAME. Sessions of NAME end immediately."""
    _USERS.create("users", file).remove(name)
    click.echo(f"{name} removed from {file}")


@users.command("list")
@_file_option
@format_option
def list_users(file: Path, format_name: str) -> None:
    """List users and their roles."""
    accounts = _USERS.create("users", file).read().values()
    rows = pa.table(
        {"user": [user.name for user in accounts], "role": [user.role.word for user in accounts]},
        schema=pa.schema({"user": pa.string(), "role": pa.string()}),
    )
    PRINTERS[format_name]().print_result([rows])
