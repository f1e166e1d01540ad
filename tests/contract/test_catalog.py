"""What every catalog promises about names, and about changing and renaming a table, over local files and memory.

The catalog by a database is run on SQLite and on a real PostgreSQL, the one by a server on that of Paimon's own tests.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults import (
    DIE_BEFORE,
    FAIL_BEFORE,
    KINDS,
    LATE,
    LOST,
    LOST_REQUEST,
    Died,
    FaultPlan,
    FaultyFileIO,
)
from lakelog.catalog import CATALOGS
from lakelog.catalog.base import Catalog, Identifier
from lakelog.errors import (
    AlreadyExists,
    CommitUnknown,
    InvalidOption,
    InvalidRequest,
    InvalidSchema,
    NotFound,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.io.storage.file_io import FileIO
from lakelog.io.storage.local import LocalFileIO
from lakelog.io.storage.memory import MemoryFileIO
from lakelog.options.option import Options
from lakelog.paimon.schema.changes import AddColumn, ChangeType, DropColumn, RenameColumn, SetOption
from lakelog.paimon.schema.schema import TableSchema, new_schema
from lakelog.paimon.types.types import BIGINT, INT, STRING

SCHEMA = new_schema([("id", BIGINT, None), ("n", INT, None)], ["id"], [], {"bucket": "2"})
OTHER = new_schema([("x", BIGINT, None)])
ORDERS = Identifier("shop", "orders")


@pytest.fixture(params=["local", "memory"])
def io(request: pytest.FixtureRequest) -> FileIO:
    return LocalFileIO() if request.param == "local" else MemoryFileIO(uuid.uuid4().hex)


@pytest.fixture
def catalog(catalog_options: dict[str, str], io: FileIO, tmp_path: Path) -> Catalog:
    own = {key: value for key, value in catalog_options.items() if key != "catalog.type"}
    made = CATALOGS.create(catalog_options["catalog.type"], str(tmp_path / "warehouse"), io, Options(own))
    made.create_database("shop")
    made.create_table(ORDERS, SCHEMA)
    return made


@pytest.fixture
def step(
    catalog: Catalog, catalog_options: dict[str, str], io: FileIO, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, str]:
    """What makes a change happen, as an object and the name of its method: a schema's file, or asking the server."""
    if catalog_options["catalog.type"] == "rest":
        return catalog, "_change"
    monkeypatch.setattr(io, "within", lambda _: io)  # the storage of each table is this one
    return io, "create"


def timeless(schema: TableSchema) -> TableSchema:
    """A schema without its time, which a server gives."""
    return replace(schema, time_millis=0)


def columns(catalog: Catalog, identifier: Identifier = ORDERS) -> tuple[str, ...]:
    return catalog.load_table(identifier).schema.field_names


def test_names_are_created_once_and_listed(catalog: Catalog) -> None:
    with pytest.raises(AlreadyExists, match="'shop'"):
        catalog.create_database("shop")
    catalog.create_database("shop", if_not_exists=True)
    with pytest.raises(AlreadyExists, match=r"shop\.orders"):
        catalog.create_table(ORDERS, OTHER)
    found = catalog.create_table(ORDERS, OTHER, if_not_exists=True)
    assert timeless(found.schema) == SCHEMA and pickle.loads(pickle.dumps(found)) == found == catalog.load_table(ORDERS)
    assert catalog.list_tables("default") == [] and catalog.list_databases() == ["shop"]
    catalog.create_table(Identifier("default", "t"), OTHER)
    assert catalog.list_databases() == ["default", "shop"], "the default database need not be created"
    assert catalog.list_tables("shop") == ["orders"]


def test_a_missing_name_is_reported_with_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(NotFound, match="did you mean 'orders'"):
        catalog.load_table(Identifier("shop", "order"))
    with pytest.raises(NotFound, match="database 'shup' does not exist in '.*', did you mean 'shop'"):
        catalog.create_table(Identifier("shup", "orders"), SCHEMA)
    for act in (catalog.list_tables, catalog.drop_database):
        with pytest.raises(NotFound, match="database 'shup'"):
            act("shup")
    with pytest.raises(NotFound, match=r"shop\.order\b"):
        catalog.drop_table(Identifier("shop", "order"))
    catalog.drop_table(Identifier("shop", "order"), if_exists=True)
    catalog.drop_database("shup", if_exists=True)


def test_what_is_dropped_goes_with_its_files_and_a_database_with_its_tables_only_when_asked(
    catalog: Catalog, io: FileIO
) -> None:
    path = catalog.load_table(ORDERS).path
    for name in ("bucket-0/data-1.parquet", "snapshot/snapshot-1"):
        io.write(f"{path}/{name}", b"1")
    with pytest.raises(InvalidRequest, match="has 1 tables.*CASCADE"):
        catalog.drop_database("shop")
    catalog.drop_table(ORDERS)
    assert not io.exists(path) and catalog.list_tables("shop") == []
    catalog.create_table(ORDERS, SCHEMA)
    catalog.drop_database("shop", cascade=True)
    assert catalog.list_databases() == []
    catalog.create_database("shop")
    assert timeless(catalog.create_table(ORDERS, OTHER).schema) == timeless(OTHER), "nothing of the old one is left"


@pytest.mark.parametrize("name", ["", " ", "a/b", "..", ".hidden", "t$snapshots", "a\\b", "a\nb"])
def test_names_that_are_no_directories_are_refused(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidRequest, match="cannot be the name of a table"):
        catalog.table_path(Identifier("default", name))
    with pytest.raises(InvalidRequest, match="cannot be the name of a database"):
        catalog.create_database(name)


def test_a_change_is_one_new_schema_and_the_old_one_stays(catalog: Catalog, io: FileIO) -> None:
    made = catalog.alter_table(ORDERS, [AddColumn(("name",), STRING), ChangeType(("n",), BIGINT)])
    assert made == catalog.load_table(ORDERS)
    assert (made.schema.id, made.schema.field_names) == (1, ("id", "n", "name"))
    assert made.schema.time_millis > 1_600_000_000_000
    assert timeless(TableSchema.from_json(io.read(f"{made.path}/schema/schema-0"))) == SCHEMA
    assert [s.name for s in io.list(f"{made.path}/schema")] == ["schema-0", "schema-1"]


def test_a_change_that_changes_nothing_makes_no_schema(catalog: Catalog) -> None:
    assert timeless(catalog.alter_table(ORDERS, [SetOption("bucket", "2")]).schema) == SCHEMA
    assert catalog.load_table(ORDERS).schema.id == 0


def test_what_is_refused_changes_nothing(catalog: Catalog) -> None:
    with pytest.raises(InvalidSchema, match="'id' cannot be dropped"):
        catalog.alter_table(ORDERS, [AddColumn(("name",), STRING), DropColumn(("id",))])
    assert timeless(catalog.load_table(ORDERS).schema) == SCHEMA
    with pytest.raises(NotFound, match="did you mean 'orders'"):
        catalog.alter_table(Identifier("shop", "order"), [DropColumn(("n",))])


def test_a_check_sees_both_schemas_and_may_refuse(catalog: Catalog) -> None:
    seen = []

    def refuse(before: TableSchema, after: TableSchema) -> None:
        seen.append((before.field_names, after.field_names))
        raise InvalidRequest("not today")

    with pytest.raises(InvalidRequest, match="not today"):
        catalog.alter_table(ORDERS, [DropColumn(("n",))], refuse)
    assert seen == [(("id", "n"), ("id",))]
    assert timeless(catalog.load_table(ORDERS).schema) == SCHEMA


def test_options_that_files_depend_on_are_fixed_by_the_first_snapshot(catalog: Catalog, io: FileIO) -> None:
    change = SetOption("merge-engine", "first-row")
    path = catalog.alter_table(ORDERS, [change]).path
    io.write(f"{path}/snapshot/snapshot-1", b"{}")
    with pytest.raises(InvalidOption, match="files of the table depend on it"):
        catalog.alter_table(ORDERS, [SetOption("merge-engine", "aggregation")])


def rival_before(step: tuple[Any, str], monkeypatch: pytest.MonkeyPatch, rival: Callable[[], Any]) -> None:
    """Lets a rival act right before the next step."""
    act = getattr(*step)

    def late(*args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        rival()
        return act(*args, **more)

    monkeypatch.setattr(*step, late)


def test_a_lost_race_is_tried_on_the_newer_schema(
    catalog: Catalog, step: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rival_before(step, monkeypatch, lambda: catalog.alter_table(ORDERS, [AddColumn(("x",), INT)]))
    made = catalog.alter_table(ORDERS, [AddColumn(("y",), INT)])
    assert made.schema.field_names == ("id", "n", "x", "y")
    assert [f.id for f in made.schema.fields] == [0, 1, 2, 3]


def test_what_is_not_possible_any_more_is_refused_after_a_lost_race(
    catalog: Catalog, step: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rival_before(step, monkeypatch, lambda: catalog.alter_table(ORDERS, [RenameColumn(("n",), "m")]))
    with pytest.raises(InvalidSchema, match="there is no column 'n'"):
        catalog.alter_table(ORDERS, [DropColumn(("n",))])
    assert columns(catalog) == ("id", "m")


def test_a_stale_listing_delays_no_change(catalog: Catalog, io: FileIO, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.alter_table(ORDERS, [AddColumn(("x",), INT)])
    listed = io.list
    monkeypatch.setattr(io, "list", lambda path: [s for s in listed(path) if s.name != "schema-1"])
    assert catalog.alter_table(ORDERS, [AddColumn(("y",), INT)]).schema.field_names == ("id", "n", "x", "y")


@pytest.mark.parametrize("arrives", [True, False])
def test_a_lost_answer_is_resolved_by_looking(
    catalog: Catalog, step: tuple[Any, str], monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    act, lost_once = getattr(*step), []

    def lost(*args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        lost_once.append(args)
        if arrives:
            act(*args, **more)
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(*step, lost)
    made = catalog.alter_table(ORDERS, [AddColumn(("x",), INT)])
    assert (made.schema.id, columns(catalog), len(lost_once)) == (1, ("id", "n", "x"), 1)


def test_a_lost_answer_about_a_number_that_a_rival_took_is_a_lost_race(
    catalog: Catalog, step: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        monkeypatch.undo()
        catalog.alter_table(ORDERS, [AddColumn(("x",), INT)])
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(*step, lost)
    assert catalog.alter_table(ORDERS, [AddColumn(("y",), INT)]).schema.field_names == ("id", "n", "x", "y")


def test_a_permanently_unknown_outcome_is_reported(
    catalog: Catalog, step: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(*step, lost)
    with pytest.raises(CommitUnknown, match=r"schema-1' was created: "):
        catalog.alter_table(ORDERS, [AddColumn(("x",), INT)])


def test_a_renamed_table_has_its_files_under_the_new_name(catalog: Catalog, io: FileIO) -> None:
    made = catalog.alter_table(ORDERS, [AddColumn(("x",), INT)])
    io.write(f"{made.path}/bucket-0/data-1.parquet", b"1")
    catalog.create_database("store")
    new = Identifier("store", "sales")
    catalog.rename_table(ORDERS, new)
    assert catalog.list_tables("shop") == []
    assert catalog.list_tables("store") == ["sales"]
    found = catalog.load_table(new)
    assert found.schema == made.schema
    assert io.read(f"{found.path}/bucket-0/data-1.parquet") == b"1"
    assert not io.exists(made.path)


def test_a_name_that_is_taken_stays_taken(catalog: Catalog) -> None:
    other = Identifier("shop", "other")
    catalog.create_table(other, new_schema([("a", INT, None)]))
    with pytest.raises(AlreadyExists, match=r"shop\.other"):
        catalog.rename_table(ORDERS, other)
    assert (columns(catalog), columns(catalog, other)) == (("id", "n"), ("a",))


def test_a_rename_of_nothing_or_to_nowhere_is_refused(catalog: Catalog) -> None:
    with pytest.raises(NotFound, match="did you mean 'orders'"):
        catalog.rename_table(Identifier("shop", "order"), Identifier("shop", "x"))
    with pytest.raises(NotFound, match="database 'shup' does not exist in '.*', did you mean 'shop'"):
        catalog.rename_table(ORDERS, Identifier("shup", "orders"))
    with pytest.raises(InvalidRequest, match="cannot be the name of a table"):
        catalog.rename_table(ORDERS, Identifier("shop", "a/b"))
    assert columns(catalog) == ("id", "n")


@pytest.mark.parametrize(
    "catalog_options",
    ["filesystem", "sql", pytest.param("sql on PostgreSQL", marks=pytest.mark.postgres)],
    indirect=True,
)
def test_a_storage_that_cannot_rename_says_so(catalog: Catalog, io: FileIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(io), "rename_dir", FileIO.rename_dir)
    with pytest.raises(UnsupportedFeature, match="cannot rename a directory in one step"):
        catalog.rename_table(ORDERS, Identifier("shop", "x"))
    assert columns(catalog) == ("id", "n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_is_made_once_or_not_whatever_the_storage_does(tmp_path: Path, kind: str) -> None:
    inner = MemoryFileIO(uuid.uuid4().hex)
    CATALOGS.create("filesystem", str(tmp_path), inner).create_table(Identifier("default", "t"), SCHEMA)
    plan = FaultPlan({1: kind})
    told = None
    try:
        catalog = CATALOGS.create("filesystem", str(tmp_path), FaultyFileIO(inner, plan))
        told = catalog.alter_table(Identifier("default", "t"), [AddColumn(("x",), INT)])
    except (Died, Unavailable):
        pass
    plan.arrive()
    found = CATALOGS.create("filesystem", str(tmp_path), inner).load_table(Identifier("default", "t")).schema
    assert plan.hit
    assert (told is not None) == (kind in (LOST, LOST_REQUEST, LATE)), "an unknown outcome is resolved by looking"
    assert found.field_names == (("id", "n") if kind in (DIE_BEFORE, FAIL_BEFORE) else ("id", "n", "x"))
    assert found.id == len(found.field_names) - 2
