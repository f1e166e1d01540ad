"""``lakelog metrics``: the metrics of all tables for Prometheus, once or as an endpoint."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from lakelog.cli.console.connection import connect
from lakelog.cli.console.output import warehouse_option
from lakelog.cli.console.process import ended_by_signals, remark
from lakelog.cli.services.secret_file import read_token
from lakelog.service.metrics.api import METRICS


@click.command()
@click.option("--serve", is_flag=True, help="Serve http://HOST:PORT/metrics until Ctrl-C.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9464,
    show_default=True,
    help="Port of --serve; 0 picks a free port.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address of --serve. A non-loopback address needs a token and TLS.",
)
@click.option("--token-file", type=click.Path(path_type=Path, dir_okay=False), help="File with the required token.")
@click.option("--tls-certificate", type=click.Path(exists=True, path_type=Path, dir_okay=False), help="PEM file.")
@click.option("--tls-key", type=click.Path(exists=True, path_type=Path, dir_okay=False), help="PEM file.")
@warehouse_option
def metrics(
    serve: bool,
    port: int,
    host: str,
    token_file: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    warehouse: str,
) -> None:
    """Print the metrics of all tables in the Prometheus text format, or serve them.

    Counters of a writing job are at the job's own endpoint (lakelog.metrics.serve in Python). They are here too if both
    processes run on this machine with the same directory in LAKELOG_METRICS_DIR.
    """
    token = None if token_file is None else read_token(token_file)
    tls = None if tls_certificate is None or tls_key is None else (tls_certificate, tls_key)
    # Ctrl-C is the usual end of a server, not a failure
    with connect(warehouse=warehouse) as lake, suppress(KeyboardInterrupt):
        if not serve:
            click.echo(METRICS.text(lake), nl=False)
            return
        with ended_by_signals(), METRICS.serve(lake, port=port, host=host, token=token, tls=tls) as endpoint:
            remark(f"metrics at {endpoint.url}; Ctrl-C stops")
            endpoint.wait()
