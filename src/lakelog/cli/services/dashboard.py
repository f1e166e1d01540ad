"""``lakelog dashboard``: the pages, on port 1630."""

from __future__ import annotations

import contextlib
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from lakelog.cli.console.output import warehouse_option
from lakelog.cli.services.logins import address_options, login_options, state_option, tables_of, token_of
from lakelog.options.registry import Registry
from lakelog.service.dashboard.settings import PORT, DashboardSettings
from lakelog.service.loopback import LOOPBACK

_TOKEN: Final = "LAKELOG_DASHBOARD_TOKEN"
_EXTRA: Final = "dashboard"
_SERVERS: Final[Registry[Any]] = Registry(
    "service",
    {
        "dashboard": "lakelog.service.dashboard.server:DashboardServer",
        "demo": "lakelog.service.demo.process:demo_warehouse",
    },
    extras=dict.fromkeys(("fastapi", "starlette", "uvicorn", "jinja2", "argon2", "sqlalchemy", "psutil"), _EXTRA),
)


@click.command()
@warehouse_option
@address_options(LOOPBACK, PORT)
@login_options(_TOKEN)
@click.option("--behind-proxy", is_flag=True, help="A reverse proxy terminates TLS.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="HOST[:PORT]",
    help="Additional host name of the dashboard; repeatable.",
)
@click.option("--allow-local-files", is_flag=True, help="Allow admins to access local files in the terminal.")
@state_option("metrics history, the audit log and saved queries")
@click.option("--terminals", type=click.IntRange(min=1), default=4, show_default=True,
              help="Maximum number of open terminals; each has a process of up to 3 GiB.")  # fmt: skip
@click.option("--demo", is_flag=True, help="Create a demo warehouse with a live writer and serve it.")
@click.option("--open", "opens", is_flag=True, help="Open the dashboard in a browser.")
def dashboard(
    warehouse: str,
    catalogs: tuple[str, ...],
    users_file: Path | None,
    token_file: Path | None,
    demo: bool,
    opens: bool,
    **more: Any,
) -> None:
    """Serve a web dashboard for a warehouse: freshness, size and maintenance of tables, and a SQL terminal.

    Without --users-file and --token-file only your own user on this machine has access.
    """
    with contextlib.ExitStack() as cleanup:
        checks: dict[str, Callable[[], str]] = {}
        stages: dict[str, Callable[[], str]] = {}
        if demo:
            running = cleanup.enter_context(_SERVERS.load("demo")())
            warehouse, checks, stages = running.warehouse, {"demo": running.failure}, {"demo": running.stage}
        _run(warehouse, catalogs, users_file, token_file, opens, checks, stages, more)


def _run(
    warehouse: str,
    catalogs: tuple[str, ...],
    users_file: Path | None,
    token_file: Path | None,
    opens: bool,
    checks: Mapping[str, Callable[[], str]],
    stages: Mapping[str, Callable[[], str]],
    more: Mapping[str, Any],
) -> None:
    settings = DashboardSettings(
        **tables_of(warehouse, catalogs),
        users_file=users_file,
        token=token_of(token_file, _TOKEN),
        **more,
    )

    def started(address: str) -> None:
        click.echo(f"lakelog dashboard at {address} (stop it with Ctrl-C)")
        if opens:
            webbrowser.open(address)

    with contextlib.suppress(KeyboardInterrupt):  # the usual end of a server, not a failure
        _SERVERS.create("dashboard", settings, checks, stages).run(started)
