"""Names that are accepted work everywhere, all others are refused with the reason; nothing reaches a terminal raw."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from lakelog import connect
from lakelog.cli.main import exit_code, one_line
from lakelog.cli.main import lakelog as command
from lakelog.errors import InvalidRequest
from lakelog.lake import Lake

BAD = {
    "a.b": "it has '.'",
    "a`b": "it has '`'",
    "a/b": "it has '/'",
    ".a": "it begins with '.'",
    "a$b": "it has '$'",
    "a\nb": r"it has \x0a, an invisible character",
    "live\u202eevil": r"it has \u202e, an invisible character",
    "n" * 300: "it has 300 bytes, too long",
    " ": "a name is not blank",
    "zu\u0308ge": "write it in NFC",
    "a\u2024b": "which looks like '.'",
    "a\uff0fb": "which looks like '/'",
    "a\u2025b": "which looks like '..'",
    "a\uff04b": "which looks like '$'",
}


@dataclass(frozen=True)
class Ran:
    """What a command printed, errors included, and how it ended."""

    exit_code: int
    output: str


def ran(arguments: Sequence[str], input: str | None = None) -> Ran:
    done = CliRunner().invoke(command, arguments, input=input)
    if done.exception is None or isinstance(done.exception, SystemExit):
        return Ran(done.exit_code, done.output)
    return Ran(exit_code(done.exception), f"{done.output}{one_line(done.exception)}")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database d; create table d.t (id int, v string)")
        yield lake


@pytest.mark.parametrize("name", BAD)
def test_a_bad_name_is_refused_with_its_reason(lake: Lake, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    for text in (
        f"create table d.{quoted} (id int)",
        f"create database {quoted}",
        f"alter table d.t rename to d.{quoted}",
    ):
        with pytest.raises(InvalidRequest) as refused:
            lake.sql(text)
        assert BAD[name] in str(refused.value)
        assert "\u202e" not in str(refused.value).partition("\n")[0]
    assert lake.list_tables() == ["d.t"]


@pytest.mark.parametrize("name", ["a\nb", "x\u202ey", "n" * 300, " ", "a/b"])
def test_tags_branches_consumers_and_columns_have_visible_names(lake: Lake, name: str) -> None:
    table = lake.table("d.t")
    for make in (table.create_tag, table.create_branch, lambda n: table.logical.store.consumers.record(n, 1)):
        with pytest.raises(InvalidRequest, match="cannot be the name of a"):
            make(name)
    if name in ("a\nb", "x\u202ey"):
        with pytest.raises(InvalidRequest, match="cannot be the name of a column"):
            lake.sql(f"create table d.u (`{name}` int)")


def test_names_in_any_alphabet_are_taken_and_those_that_exist_are_read(lake: Lake, tmp_path: Path) -> None:
    for name in ("z\u00fcge", "日本語", "заказы", "ﬁ"):
        lake.sql(f"create table d.`{name}` (id int)")
    Path(lake.table("d.z\u00fcge").path).rename(tmp_path / "d.db" / "zu\u0308ge")
    assert lake.table("d.`zu\u0308ge`").scan().to_arrow().num_rows == 0


def test_a_table_of_another_engine_with_a_dot_does_not_stop_the_others(lake: Lake, tmp_path: Path) -> None:
    Path(lake.table("d.t").path).rename(tmp_path / "d.db" / "a.b")
    lake.sql("create table d.u (id int)")
    assert lake.list_tables() == ["d.`a.b`", "d.u"]
    for name in lake.list_tables():
        assert lake.table(name).scan().to_arrow().num_rows == 0
    commands = (["health"], ["tables"], ["doctor", "--only", "tables"], ["head", "d.`a.b`"], ["metrics"])
    for arguments in (*commands, ["compact", "d.`a.b`"], ["optimize", "--once"], ["optimize", "--once", "d.`a.b`"]):
        done = ran([*arguments, "--warehouse", str(tmp_path)])
        assert done.exit_code == 0, done.output
        assert "a.b" in done.output or arguments[0] in ("doctor", "head", "compact", "optimize")
        if arguments[0] == "optimize":
            assert f"maintaining {'1 table' if arguments[2:] else '2 tables'}" in done.output


def test_escapes_in_data_are_shown_as_text(lake: Lake, tmp_path: Path) -> None:
    lake.table("d.t").write(
        pa.table({"id": pa.array([1], pa.int32()), "v": ["\x1b[31mred\x1b]0;title\x07 \u202eevil"]})
    )
    done = ran(["head", "d.t", "--warehouse", str(tmp_path)])
    assert done.exit_code == 0
    assert r"\x1b[31mred\x1b]0;title\x07 \u202eevil" in done.output
    assert not {"\x1b", "\x07", "\u202e"} & set(done.output)


def test_a_warehouse_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = ran(["tables", "--warehouse", str(tmp_path / "nowhere")])
    assert done.exit_code != 0
    assert "no warehouse '" in done.output


def test_a_token_that_others_may_read_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789012345678901234567890")
    token.chmod(0o644)
    for arguments in (["metrics", "--serve"], ["dashboard"]):
        done = ran([*arguments, "--token-file", str(token), "--warehouse", str(tmp_path)])
        assert done.exit_code == 2, done.output
        assert f"chmod 600 {token}" in done.output
    token.chmod(stat.S_IRUSR)
    clear = ["metrics", "--serve", "--host", "0.0.0.0", "--token-file", str(token), "--warehouse", str(tmp_path)]
    done = ran(clear)
    assert done.exit_code == 2
    assert "--tls-certificate" in done.output


def test_a_password_comes_from_stdin_and_an_end_of_input_says_so(tmp_path: Path) -> None:
    file = tmp_path / "users"
    add = ["users", "add", "rae", "--file", str(file)]
    done = ran([*add, "--password-stdin"], input="a password of rae\n")
    assert done.exit_code == 0, done.output
    assert file.read_text().startswith("rae:read:")
    for more, told in ((["--password-stdin"], "stdin ended without a password"), ([], "--password-stdin")):
        done = ran([*add, *more], input="")
        assert done.exit_code == 2
        assert told in done.output


def test_a_name_that_is_too_long_is_a_wrong_request(lake: Lake, tmp_path: Path) -> None:
    done = ran(["head", f"d.{'n' * 300}", "--warehouse", str(tmp_path)])
    assert done.exit_code == 2
    assert "too long: at most 250" in done.output


def test_a_procedure_without_rows_says_that_it_is_done(lake: Lake, tmp_path: Path) -> None:
    lake.table("d.t").write(pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}))
    done = ran(["call", "create_tag", "d.t", "tag=v1", "--warehouse", str(tmp_path)])
    assert (done.exit_code, done.output) == (0, "create_tag of d.t is done\n")
