"""``lakelog sql``: runs a script of statements and prints their rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Final, TextIO

import click
import pyarrow as pa

from lakelog.cli.console.connection import connect
from lakelog.cli.console.output import PRINTERS, RowPrinter, format_option, limit_option, warehouse_option
from lakelog.cli.console.process import Process, remark
from lakelog.errors import InvalidRequest
from lakelog.io.clock import monotonic_s
from lakelog.lake.output.result import TableResult, arrow_of
from lakelog.options.registry import Registry

_STREAMS: Final[Registry[Iterator[pa.Table]]] = Registry(
    "stream", {"rows": "lakelog.spark.engine.streaming_query:iterate_stream"}
)
"""Imported for a streaming SELECT only, because a script may need no Spark."""

_SHOWN: Final = 100
"""Maximum rows of ``--format table`` without ``--limit``."""

_POLL_S: Final = 0.5
"""Seconds of a wait for one streaming query before the others are checked."""


@click.command()
@click.argument("statements", required=False)
@click.option("-f", "--file", type=click.File(encoding="utf-8"), help="File with the statements ('-': stdin).")
@warehouse_option
@format_option
@limit_option
@click.option("--seconds", type=click.FloatRange(min=0), help="Maximum duration of streaming statements in seconds.")
@click.pass_obj
def sql(
    process: Process | None,
    statements: str | None,
    file: TextIO | None,
    warehouse: str,
    format_name: str,
    limit: int | None,
    seconds: float | None,
) -> None:
    """Run SQL STATEMENTS, separated by semicolons, and print their rows.

    A SELECT on the log prints rows as they arrive, and an INSERT from the log keeps running. Both end with Ctrl-C,
    --seconds or --limit. Without STATEMENTS and --file the command reads stdin.
    """
    text = _script(statements, file)
    (process or Process()).silence_children()
    with connect(warehouse=warehouse) as lake:
        printer = PRINTERS[format_name]()
        queries = []
        for result in lake.run(text):
            if hasattr(result, "awaitTermination"):
                queries.append(result)
            elif result is not None:
                _print(printer, result, format_name, limit, seconds)
        _wait(queries, seconds)


def _script(statements: str | None, file: TextIO | None) -> str:
    if statements is not None and file is not None:
        raise InvalidRequest("give the statements or --file, not both")
    text = statements
    if text is None and (file is not None or not sys.stdin.isatty()):
        text = (file or sys.stdin).read()
    if text is None or not text.strip():
        raise InvalidRequest('no statement given: lakelog sql "show tables"')
    return text


def _print(printer: RowPrinter, result: Any, format_name: str, limit: int | None, seconds: float | None) -> None:
    """Prints an Arrow table, a DataFrame or, until its stop, a streaming DataFrame."""
    if isinstance(result, TableResult):
        result = result.to_arrow()
    if not isinstance(result, pa.Table) and result.isStreaming:
        _print_stream(printer, _STREAMS.create("rows", result, seconds, limit), limit)
        return
    shown = _SHOWN if limit is None and format_name == "table" else limit
    if not isinstance(result, pa.Table):
        # One row more than is shown tells whether there are more.
        result = arrow_of(result if shown is None else result.limit(shown + 1))
    if not result.column_names:
        # What Spark answers to a statement that has nothing to show.
        return
    printer.print_result([result], shown)
    if limit is None and shown is not None and result.num_rows > shown:
        remark(f"the first {shown} rows; --limit shows more")


def _print_stream(printer: RowPrinter, chunks: Iterable[pa.Table], limit: int | None) -> None:
    try:
        printer.print_result(chunks, limit)
    except KeyboardInterrupt:
        # Ctrl-C is the usual end of a stream, not a failure.
        return


def _wait(queries: list[Any], seconds: float | None) -> None:
    """Waits until the queries end, for ``seconds`` or for Ctrl-C, then stops them; raises the error of a failed one."""
    if queries:
        remark(f"{len(queries)} streaming statement(s) running; Ctrl-C stops")
    end = math.inf if seconds is None else monotonic_s() + seconds
    try:
        while queries and monotonic_s() < end:
            queries = [query for query in queries if not query.awaitTermination(_POLL_S)]
    except KeyboardInterrupt:
        return
    finally:
        for query in queries:
            query.stop()
