"""``lakelog doctor``: checks the environment of lakelog, and suggests fixes."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Final

import click
import pyarrow as pa

from lakelog.cli.console.connection import warehouse_config
from lakelog.cli.console.output import PRINTERS, format_option, warehouse_option
from lakelog.cli.console.process import Process, echo
from lakelog.options.parts import LOG_SYSTEMS
from lakelog.service.doctor import CHECKS
from lakelog.service.doctor.check import FAIL, PASS, WARN, CheckContext, Finding
from lakelog.service.doctor.run import examine

_SIGNS: Final = {PASS: ("ok", "green"), WARN: ("warn", "yellow"), FAIL: ("FAIL", "red")}
_INDENT: Final = 8


@click.command()
@click.option("--log", type=click.Choice(list(LOG_SYSTEMS)),
              help="Log system to check. Default: the one of the address.")  # fmt: skip
@click.option("--address", metavar="HOST:PORT", help="Address of the log system.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE",
              help="Property of the log client, like 'properties.KEY' of a table; repeatable.")  # fmt: skip
@click.option("--remote", metavar="sc://HOST:PORT", help="Spark Connect session whose settings are also checked.")
@click.option("--only", multiple=True, type=click.Choice(list(CHECKS)), help="Run only this check; repeatable.")
@warehouse_option
@format_option
@click.option("--json", "as_json", is_flag=True, help="Same as --format jsonl.")
@click.pass_obj
def doctor(
    process: Process | None,
    log: str | None,
    address: str | None,
    properties: tuple[str, ...],
    remote: str | None,
    only: tuple[str, ...],
    warehouse: str,
    format_name: str,
    as_json: bool,
) -> None:
    """Check Java, Spark, storage, clocks, log and tables, and suggest fixes.

    The command makes no lasting changes. It exits with 1 if a check fails; warnings do not count.
    """
    config = warehouse_config(warehouse)
    reached = config.reached
    if remote is not None:
        (process or Process()).silence_children()
    around = CheckContext(
        config.warehouse,
        reached.storage,
        reached.catalog,
        log,
        address,
        dict(_pair(one) for one in properties),
        remote=remote,
    )
    form = "jsonl" if as_json else format_name
    findings = []
    for finding in examine(around, only):
        findings.append(finding)
        if form == "table":
            _print(finding)
    if form != "table":
        PRINTERS[form]().print_result([pa.Table.from_pylist([asdict(one) for one in findings])])
    counts = {outcome: sum(one.outcome == outcome for one in findings) for outcome in _SIGNS}
    if form == "table":
        click.echo(f"\n{counts[PASS]} passed, {counts[WARN]} warned, {counts[FAIL]} failed")
    if counts[FAIL]:
        sys.exit(1)


def _print(finding: Finding) -> None:
    sign, colour = _SIGNS[finding.outcome]
    echo(f"{click.style(f'{sign:<5}', fg=colour, bold=finding.outcome == FAIL)} {finding.check}: {finding.found}")
    if finding.what_to_do:
        echo(f"{'':{_INDENT}}→ {finding.what_to_do}")


def _pair(option: str) -> tuple[str, str]:
    name, equals, value = option.partition("=")
    if not equals:
        raise click.BadParameter("it is not KEY=VALUE", param_hint="--property")
    return name.strip().removeprefix("properties."), value.strip()
