"""The command ``lakelog``: finds the subcommand, and turns errors into one line and an exit code."""

from __future__ import annotations

import codecs
import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

import click

from lakelog.cli.console.process import Process
from lakelog.errors import InvalidRequest, LakelogError, NotFound, did_you_mean
from lakelog.options.boundary import is_judged, own_error
from lakelog.options.environment import BARS, FORMATS, LEVELS, LOG_FORMAT, LOG_LEVEL
from lakelog.options.names import visible
from lakelog.options.registry import Registry
from lakelog.sql.runtime.spark_errors import lakelog_error_in_text

_COMMANDS: Final = {
    "sql": ("lakelog.cli.rows.sql:sql", "Run SQL statements and print their rows."),
    "head": ("lakelog.cli.rows.batches:head", "Print some rows of a table, without Spark."),
    "tail": ("lakelog.cli.rows.streams:tail", "Print the changes of a table as its log receives them."),
    "load": ("lakelog.cli.rows.batches:load", "Write the rows of files into a table, without Spark."),
    "migrate": (
        "lakelog.cli.rows.migrate:migrate",
        "Copy a table of Delta, Iceberg, Parquet files or Spark into lakelog.",
    ),
    "ingest": (
        "lakelog.cli.rows.ingest:ingest",
        "Copy tables of a PostgreSQL database and follow their changes, exactly once.",
    ),
    "export": ("lakelog.cli.rows.batches:export", "Write the rows of a table to a file, without Spark."),
    "follow": ("lakelog.cli.rows.streams:follow", "Materialize log-first rows into data files."),
    "mirror": ("lakelog.cli.rows.streams:mirror", "Copy the changes of a table to a Kafka topic, exactly once."),
    "pipe": ("lakelog.cli.rows.streams:pipe", "Run a Python function between two tables, exactly once."),
    "tables": ("lakelog.cli.tables:tables", "List the tables of a warehouse."),
    "describe": ("lakelog.cli.tables:describe", "Show the columns of a table."),
    "show": ("lakelog.cli.tables:show", "Show a system table: snapshots, files, tags, history …"),
    "log": ("lakelog.cli.tables:log", "Show the log of a table: buckets, writers and readers."),
    "health": ("lakelog.cli.tables:health", "Show the health of tables, findings and pending maintenance."),
    "compact": ("lakelog.cli.maintenance.table:compact", "Compact the files of a table."),
    "optimize": (
        "lakelog.cli.maintenance.optimize:optimize",
        "Maintain tables: compaction, expiry, cleaning and healing on demand.",
    ),
    "expire": ("lakelog.cli.maintenance.table:expire", "Expire old snapshots of a table."),
    "backup": ("lakelog.cli.maintenance.backup:backup", "Copy a table into a backup, consistent and incremental."),
    "restore": ("lakelog.cli.maintenance.backup:restore", "Restore a table from a backup, or list its points."),
    "replicate": (
        "lakelog.cli.maintenance.replicate:replicate",
        "Keep a replica of a table in another warehouse close to it.",
    ),
    "promote": ("lakelog.cli.maintenance.replicate:promote", "Make a replica a table of its own."),
    "view": ("lakelog.cli.services.view:view", "Refresh materialized views, and keep them fresh."),
    "dashboard": (
        "lakelog.cli.services.dashboard:dashboard",
        "Serve a web dashboard for a warehouse, with a terminal.",
    ),
    "serve": (
        "lakelog.cli.services.serve:serve",
        "Serve tables to programs by Arrow Flight SQL.",
    ),
    "mcp": ("lakelog.cli.services.mcp:mcp", "Let an assistant read tables, by the Model Context Protocol."),
    "users": ("lakelog.cli.services.users:users", "Manage the users of the dashboard and of lakelog serve."),
    "call": ("lakelog.cli.maintenance.table:call", "Run a procedure on a table: tags, branches, rollback, cleaning …"),
    "secrets": ("lakelog.cli.services.secrets:secrets", "Replace secrets in the options of tables by references."),
    "metrics": (
        "lakelog.cli.services.metrics:metrics",
        "Print the metrics of all tables for Prometheus, or serve them.",
    ),
    "upgrade": (
        "lakelog.cli.maintenance.upgrade:upgrade",
        "List which versions of lakelog read and write the tables.",
    ),
    "doctor": (
        "lakelog.cli.setup.doctor:doctor",
        "Check Java, Spark, storage, clocks, log and tables, and suggest fixes.",
    ),
    "completion": ("lakelog.cli.setup.completion:completion", "Print the completion script for a shell."),
    "demo": ("lakelog.cli.setup.demo:demo", "Stream a year of flights through one table and measure it."),
}
"""Every subcommand: its name → (target, summary)."""

COMMANDS: Final[Registry[click.Command]] = Registry(
    "command", {name: target for name, (target, _) in _COMMANDS.items()}
)
"""A command's module is loaded when it is called, which keeps ``lakelog --help`` instant."""

_LOGS: Final[Registry[bool]] = Registry("log", {"configure": "lakelog.io.logs:configure_logs"})


class LazyGroup(click.Group):
    """A group of commands that lists them without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the registry."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the module of a command; None for an unknown one."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = COMMANDS.load(cmd_name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads ``help`` as ``--help``; says where an option belongs that a command has."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as unknown:
            raise click.UsageError(
                f"no option '{unknown.option_name}' before the command: options of a command come after its name, as "
                "in 'lakelog tables --warehouse DIR'",
                ctx,
            ) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command. Raises click.UsageError with a near name for an unknown one."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS, ": 'lakelog help' lists the commands")
            ctx.fail(f"no command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands for ``--help``."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lakelog")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), envvar="LAKELOG_CONFIG", show_envvar=True,
              help="TOML file with the warehouse and its connection options.")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print results and errors only.")
@click.option("--log-level", type=click.Choice(LEVELS), envvar=LOG_LEVEL, show_envvar=True,
              help="Minimum level of log lines on stderr.")  # fmt: skip
@click.option("--log-format", type=click.Choice(FORMATS), envvar=LOG_FORMAT, show_envvar=True,
              help="Format of log lines.")  # fmt: skip
@click.option("--debug", is_flag=True, help="Show tracebacks and Spark's own messages.")
@click.pass_context
def lakelog(
    ctx: click.Context,
    config: Path | None,
    quiet: bool,
    log_level: str | None,
    log_format: str | None,
    debug: bool,
) -> None:
    """One table, two speeds: a log for seconds and files for minutes.

    These options precede the command. Exit codes: 0 success, 1 failure, 2 invalid request, 130 Ctrl-C, 143
    SIGTERM. Services end with 0 on both.
    """
    process = ctx.ensure_object(Process)
    process.config, process.quiet, process.debug = config, quiet, debug
    if process.owned and not quiet and sys.stderr.isatty():
        ctx.call_on_close(BARS.create("terminal").stop)
    if log_level is not None or log_format is not None:
        process.logs = True
        _LOGS.create("configure", log_level, log_format)
        if process.owned:  # Spark's Python processes follow
            variables = {LOG_LEVEL: log_level, LOG_FORMAT: log_format}
            os.environ.update({name: value for name, value in variables.items() if value is not None})


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command of this process and exits: 0 success, 2 invalid request, 1 otherwise.

    Ctrl-C and SIGTERM are the usual end of a service, 0; other commands clean up, and exit with 130 or 143.
    """
    process = Process(owned=True)
    process.end_on_sigterm()
    _make_printable()
    try:
        answer = lakelog.main(args=arguments, prog_name="lakelog", standalone_mode=False, obj=process)
        code = answer if isinstance(answer, int) else 0
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; that is its way to say "enough".
        process.drop_output()
        code = 0
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = process.interrupted_code
    except click.ClickException as wrong:
        click.echo(visible(f"error: {wrong.format_message()}"), err=True)
        code = wrong.exit_code
    except BaseException as failure:
        if not is_judged(failure):
            raise
        if process.debug:
            traceback.print_exception(failure)
        failure = own_error(lakelog_error_in_text(failure))
        click.echo(visible(f"error: {one_line(failure)}"), err=True)
        code = exit_code(failure)
    sys.exit(code)


def _make_printable() -> None:
    """Prints UTF-8 if the locale has only ASCII, as Python does by default; escapes what another encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding="utf-8" if is_ascii else None, errors="backslashreplace")


def exit_code(failure: BaseException) -> int:
    """The exit code of an error: 2 if the caller has to change the request, 1 otherwise."""
    return 2 if isinstance(failure, InvalidRequest | NotFound) else 1


def one_line(failure: BaseException) -> str:
    """The text of an error in one line; the first line with its class for errors that are not lakelog's."""
    text = str(failure).strip()
    if isinstance(failure, LakelogError):
        return " ".join(text.split())
    return f"{type(failure).__name__}: {text.splitlines()[0]}" if text else type(failure).__name__
