"""``lakelog serve``: tables for programs on the network, on port 1631."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any, Final

import click

from lakelog.cli.console.output import warehouse_option
from lakelog.cli.console.process import current_process, ended_by_signals, remark
from lakelog.cli.services.logins import address_options, login_options, state_option, tables_of, token_of
from lakelog.options.registry import Registry
from lakelog.service.loopback import LOOPBACK
from lakelog.service.serve.settings import PORT, ServeSettings

_TOKEN: Final = "LAKELOG_SERVE_TOKEN"
_SERVERS: Final[Registry[Any]] = Registry(
    "service",
    {"serve": "lakelog.service.serve.server:Server"},
    extras={"google": "serve", "argon2": "serve"},
)


@click.command()
@warehouse_option
@address_options(LOOPBACK, PORT)
@login_options(_TOKEN)
@click.option(
    "--tls-client-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="PEM file of the authority whose certificates clients need.",
)
@state_option("the audit log")
def serve(
    warehouse: str, catalogs: tuple[str, ...], users_file: Path | None, token_file: Path | None, **more: Any
) -> None:
    """Serve the tables of a warehouse to programs, by Arrow Flight SQL: queries, writes and changes.

    Without --users-file and --token-file only your own user on this machine has access.
    """
    settings = ServeSettings(
        **tables_of(warehouse, catalogs),
        users_file=users_file,
        token=token_of(token_file, _TOKEN),
        **more,
    )
    with contextlib.closing(_SERVERS.create("serve", settings)) as server:
        remark(f"lakelog serve at {server.address} (stop it with Ctrl-C)")
        with ended_by_signals(), contextlib.suppress(KeyboardInterrupt):  # the usual end of a server, not a failure
            threading.Event().wait()  # unlike a wait in gRPC, it ends by a signal
    if not server.is_over and current_process().owned:
        os._exit(0)  # a thread of gRPC still waits for a client, and must not do so inside an interpreter that ends
