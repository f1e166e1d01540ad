"""``lakelog call``: runs a procedure on a table, as CALL does in SQL."""

from __future__ import annotations

import click
import pyarrow as pa
from click.shell_completion import CompletionItem

from lakelog.cli.console.connection import connect
from lakelog.cli.console.names import complete_tables
from lakelog.cli.console.output import PRINTERS, format_option, warehouse_option
from lakelog.cli.console.process import remark
from lakelog.errors import InvalidRequest
from lakelog.sql.procedures import PROCEDURES
from lakelog.sql.runtime.statement import done_result


def complete_procedures(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of procedures."""
    return [CompletionItem(name) for name in PROCEDURES if name.startswith(incomplete)]


def complete_arguments(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The arguments of the procedure in the command line."""
    name = str(context.params.get("procedure"))
    known = PROCEDURES.load(name).parameters if name in PROCEDURES else ()
    return [CompletionItem(f"{p.name}=") for p in known if p.name.startswith(incomplete)]


@click.command()
@click.argument("procedure", required=False, shell_complete=complete_procedures)
@click.argument("table", required=False, shell_complete=complete_tables)
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]…", shell_complete=complete_arguments)
@warehouse_option
@format_option
def call(
    procedure: str | None, table: str | None, arguments: tuple[str, ...], warehouse: str, format_name: str
) -> None:
    """Run PROCEDURE on TABLE (db.table): tags, branches, rollback, expiry, cleaning and more.

    Without arguments it lists the procedures. 'lakelog call create_tag db.t tag=v1' runs CALL sys.create_tag(…).
    """
    printer = PRINTERS[format_name]()
    if procedure is None:
        printer.print_result([_listed()])
        return
    usage = _usage(procedure.removeprefix("sys."))
    if table is None:
        raise InvalidRequest(f"the table is missing: {usage}")
    lake = connect(warehouse=warehouse)
    try:
        answer = lake.run(statement_of(procedure.removeprefix("sys."), table, arguments))[-1]
        if isinstance(answer, pa.Table) and answer.num_columns and not answer.equals(done_result()):
            printer.print_result([answer])
        else:
            remark(f"{procedure.removeprefix('sys.')} of {table} is done")
    finally:
        lake.close()


def statement_of(procedure: str, table: str, arguments: tuple[str, ...]) -> str:
    """The equivalent CALL statement; every value is a text, which the argument's type converts."""
    given = [("table", table)]
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name.strip().isidentifier():
            raise InvalidRequest(f"'{argument}' is not KEY=VALUE: {_usage(procedure)}")
        given.append((name.strip(), value))
    return f"CALL sys.{procedure}({', '.join(f'{name} => {_quoted(value)}' for name, value in given)})"


def _usage(procedure: str) -> str:
    parameters = PROCEDURES.load(procedure).parameters
    parts = [f"{p.name}=…" if p.required else f"[{p.name}=…]" for p in parameters]
    return " ".join(["lakelog call", procedure, "TABLE", *parts])


def _listed() -> pa.Table:
    names = list(PROCEDURES)
    return pa.table({"procedure": names, "usage": [_usage(name) for name in names]})


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
