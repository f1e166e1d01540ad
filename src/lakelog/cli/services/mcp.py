"""``lakelog mcp``: tables for an assistant, over standard input and output."""

from __future__ import annotations

from typing import Any, Final

import click

from lakelog.cli.console.output import warehouse_option
from lakelog.cli.services.logins import catalog_option, tables_of
from lakelog.options.registry import Registry
from lakelog.service.serve.settings import ServeSettings

_SERVERS: Final[Registry[Any]] = Registry(
    "service", {"mcp": "lakelog.service.serve.tools:assistant_server"}, extras={"mcp": "mcp"}
)


@click.command()
@warehouse_option
@catalog_option
def mcp(warehouse: str, catalogs: tuple[str, ...]) -> None:
    """Let an assistant read the tables of a warehouse, by the Model Context Protocol on standard input and output.

    Its tools list and describe tables, report their health, run statements that read, and return changes since a
    position. They have your rights on the files of this machine, and change nothing.
    """
    settings = ServeSettings(**tables_of(warehouse, catalogs))
    _SERVERS.create("mcp", settings).run()
