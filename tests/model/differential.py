"""Conditions and values of statements, run without Spark, against Spark's answer on the same rows.

usage: make differential ARGS="--seed 7 --seeds 40"

Without Java lakelog runs what is certain to mean the same as in Spark, and refuses the rest; a filter of a scan means
the same or is refused; a condition that skips files skips no row that Spark would give. The oracle are tables of
Spark's own, in Parquet: one statement answers hundreds of conditions. The exit code is 1 if an answer is another.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import PropertyMock, patch

import pyarrow as pa
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType
from sqlglot import exp

import lakelog
from lakelog import Lake
from lakelog.errors import LakelogError, NotInstalled
from lakelog.filestore.skipping.predicate import ColumnBounds
from lakelog.spark.runtime.types import spark_schema
from lakelog.sql.query.predicate_parser import parse_filter
from lakelog.sql.query.predicate_pushdown import pushed_predicate
from model.differential_texts import COLUMNS, DEFINITION, condition, literal, rows
from servers.spark_session import spark_session

Answer = list[bool | None]
"""True, False or NULL for each row."""
_SIZE: Final = 50
_ROWS: Final = 60
CONDITIONS: Final = 150
VALUES: Final = 60


@dataclass(frozen=True)
class Difference:
    """What a door of lakelog answers, and what Spark does."""

    door: str
    text: str
    expected: str
    seen: str

    def __str__(self) -> str:
        return f"{self.door}: {self.text}\n    Spark:   {self.expected}\n    lakelog: {self.seen}"


class Spark:
    """Answers of Spark on rows of its own."""

    def __init__(self, session: SparkSession, directory: Path, given: pa.Table) -> None:
        self.session, self._directory, self._made = session, directory, 0
        schema = spark_schema(given.schema)
        for field in schema:
            if (sql := COLUMNS.get(field.name, ("",))[0]).startswith(("char", "varchar")):
                field.metadata = {"__CHAR_VARCHAR_TYPE_STRING": sql}
        session.createDataFrame(given, schema).createOrReplaceTempView("truth")
        self._count = len(given)

    def answers(self, texts: Sequence[str]) -> Iterator[tuple[str, Answer | str]]:
        """Each condition with its answer, or the error of it."""
        sound = []
        for text in texts:
            try:
                self.session.sql(f"select ({text}) = true as c from truth t")
                sound.append(text)
            except PySparkException as failure:
                yield text, str(failure).split("\n")[0]
        for at in range(0, len(sound), _SIZE):
            yield from self._some(sound[at : at + _SIZE])

    def _some(self, texts: Sequence[str]) -> Iterator[tuple[str, Answer | str]]:
        names = [f"c{number}" for number in range(len(texts))]
        columns = ", ".join(f"(({text}) = true) as {name}" for name, text in zip(names, texts, strict=True))
        try:
            found = sorted(self.session.sql(f"select id, {columns} from truth t").collect())
        except PySparkException as failure:
            if len(texts) > 1:
                half = len(texts) // 2
                yield from self._some(texts[:half])
                yield from self._some(texts[half:])
            else:
                yield texts[0], self._where(texts[0], str(failure).split("\n")[0])
            return
        for name, text in zip(names, texts, strict=True):
            yield text, [row[name] for row in found]

    def _where(self, text: str, error: str) -> Answer | str:
        """The answer of a condition that fails where it has to have a value; WHERE may do without it."""
        try:
            ids = {row.id for row in self.session.sql(f"select id from truth t where {text}").collect()}
        except PySparkException:
            return error
        return [True if number in ids else None for number in range(self._count)]

    def stored(self, values: Sequence[tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
        """(column, text, value or None, error or None) of each value that INSERT puts into a column of Spark's.

        Text that Spark takes in a cast only is that cast for lakelog.
        """
        sound = []
        for column, text in values:
            try:
                frame = self.session.sql(f"select {text} as v, cast({text} as {COLUMNS[column][0]}) as w")
                kind = frame.schema[0].dataType
                value = frame.toArrow()["w"][0].as_py()
            except PySparkException as failure:
                yield column, text, None, str(failure).split("\n")[0]
                continue
            if self._takes(kind, frame.schema[1].dataType):
                sound.append((column, text))
            elif kind.simpleString() == "string":
                yield column, text, value, None
            else:
                yield column, text, None, f"{kind.simpleString()} is not stored"
        yield from self._stored(sound)

    def _takes(self, given: DataType, wanted: DataType) -> bool:
        """Whether INSERT takes a type in a column of another, by ``spark.sql.storeAssignmentPolicy`` = ANSI."""
        jvm = self.session._jvm.org.apache.spark.sql
        types = [jvm.types.DataType.fromJson(kind.json()) for kind in (given, wanted)]
        return given.simpleString() == "void" or bool(jvm.catalyst.expressions.Cast.canANSIStoreAssign(*types))

    def _stored(self, values: Sequence[tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
        if not values:
            return
        definition = ", ".join(f"c{n} {COLUMNS[column][0]}" for n, (column, _) in enumerate(values))
        self._made += 1
        self.session.sql("drop table if exists stored")
        self._directory.mkdir(parents=True, exist_ok=True)
        self.session.sql(f"create table stored ({definition}) using parquet location '{self._directory}/{self._made}'")
        try:
            self.session.sql(f"insert into stored values ({', '.join(text for _, text in values)})")
        except PySparkException as failure:
            if len(values) == 1:
                yield (*values[0], None, str(failure).split("\n")[0])
                return
            half = len(values) // 2
            yield from self._stored(values[:half])
            yield from self._stored(values[half:])
            return
        row = self.session.table("stored").toArrow()
        for number, (column, text) in enumerate(values):
            yield column, text, row.column(number)[0].as_py(), None


@contextmanager
def without_spark() -> Iterator[None]:
    """A process that cannot start Spark."""
    missing = PropertyMock(side_effect=NotInstalled("this needs Spark"))
    with (
        patch("lakelog.lake.lazy_engine.can_start_spark", return_value=False),
        patch("lakelog.lake.lazy_engine.LazyEngine.started", missing),
    ):
        yield


def ids_of(given: pa.Table) -> list[int]:
    """The ids of rows, in order."""
    return sorted(given["id"].to_pylist())


class Doors:
    """The ways by which a condition reaches a table without Spark."""

    def __init__(self, lake: Lake, given: pa.Table) -> None:
        self._lake = lake
        lake.run(f"create database if not exists db; create table db.t ({DEFINITION})")
        lake.write(given, "db.t")
        self._schema = lake._open("db.t").schema
        self._all = lake.table("db.t").scan().to_arrow().sort_by("id")
        self._rows = self._all.to_pylist()

    def select(self, text: str) -> list[int] | None:
        return ids_of(self._lake.sql(f"select id from db.t t where {text}").to_arrow())

    def scan(self, text: str) -> list[int] | None:
        return ids_of(self._all.filter(parse_filter(text, self._schema).to_arrow(self._all.schema)))

    def pushed(self, text: str) -> tuple[str, list[int]] | None:
        """The rows that a condition of a query leaves to Spark, and by the bounds of their files."""
        tree = sqlglot.parse_one(f"select id from db.t t where {text}", dialect="spark")
        found = pushed_predicate(next(iter(tree.find_all(exp.Table))), self._schema)
        return None if found is None else (found, self.scan(found) or [])

    def not_skipped(self, text: str) -> list[int]:
        """The rows whose own bounds do not exclude them."""
        predicate = parse_filter(text, self._schema)
        bounds = [
            {n: ColumnBounds(v, v, int(v is None), 1) if v == v else ColumnBounds() for n, v in row.items()}
            for row in self._rows
        ]
        return [row["id"] for row, of in zip(self._rows, bounds, strict=True) if predicate.may_match(of)]


def compared(spark: Spark, doors: Doors, texts: Sequence[str], done: Counter[str]) -> Iterator[Difference]:
    """The differences in the answers to conditions. ``done`` counts the answers that are the same, by door."""
    for text, answer in spark.answers(texts):
        is_error = isinstance(answer, str)
        right = answer if isinstance(answer, str) else [number for number, one in enumerate(answer) if one]
        done["Spark: " + ("refused" if is_error else "answered")] += 1
        for door in (doors.select, doors.scan):
            seen = _answer_of(door, text)
            # a filter may read text that Spark does not
            if seen is None or (is_error and (isinstance(seen, str) or door == doors.scan)):
                done[f"{door.__name__}: refused"] += 1
            elif seen == right:
                done[f"{door.__name__}: same"] += 1
            else:
                yield Difference(door.__name__, text, str(right), str(seen))
        if is_error:
            continue
        try:
            pushed = doors.pushed(text)
        except sqlglot.errors.SqlglotError:
            pushed = None
        if pushed is None:
            done["pushed: nothing"] += 1
            continue
        for name, left in (("pushed", pushed[1]), ("skipping", doors.not_skipped(pushed[0]))):
            if set(right) <= set(left):
                done[f"{name}: all rows"] += 1
            else:
                yield Difference(name, f"{text}   by   {pushed[0]}", str(right), str(left))


def _answer_of(door: Callable[[str], list[int] | None], text: str) -> list[int] | str | None:
    """The rows; None if lakelog does not take the condition, the text of an error that no one expects."""
    try:
        return door(text)
    except LakelogError:
        return None
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"


def assigned(spark: Spark, lake: Lake, values: Sequence[tuple[str, str]], done: Counter[str]) -> Iterator[Difference]:
    """The differences in the values that statements put into columns."""
    for at in range(0, len(values), _SIZE):
        for column, text, right, error in spark.stored(values[at : at + _SIZE]):
            done["Spark stores" if error is None else "Spark refuses"] += 1
            for door in (_inserted, _updated):
                try:
                    seen, problem = door(lake, column, text), None
                except LakelogError:
                    done[f"{door.__name__}: refused"] += 1
                    continue
                except Exception as failure:
                    seen, problem = None, f"{type(failure).__name__}: {failure}"
                if error is None and problem is None and repr(seen) == repr(right):
                    done[f"{door.__name__}: same"] += 1
                else:
                    yield Difference(
                        door.__name__,
                        f"{column} = {text}",
                        repr(right) if error is None else error,
                        problem or repr(seen),
                    )


def _inserted(lake: Lake, column: str, text: str) -> Any:
    table = lake.table(f"db.one_{column}")
    try:
        lake.sql(f"insert into db.one_{column} values (1, {text})")
        return table.scan().to_arrow()[column][0].as_py()
    finally:
        table.truncate()


def _updated(lake: Lake, column: str, text: str) -> Any:
    table = lake.table(f"db.two_{column}")
    lake.sql(f"update db.two_{column} set {column} = {text} where id = 1")
    return table.scan().to_arrow()[column][0].as_py()


def tables_of_values(lake: Lake) -> None:
    """A table for each column, into which ``assigned`` puts values."""
    for name, (kind, _, _) in COLUMNS.items():
        for table in ("one", "two"):
            lake.run(f"create table db.{table}_{name} (id bigint, {name} {kind})")
        lake.run(f"insert into db.two_{name} values (1, null)")


def differences(session: SparkSession, directory: Path, seed: int, done: Counter[str]) -> Iterator[Difference]:
    """All differences of the conditions and values of a seed, on rows that it draws."""
    rng = random.Random(seed)
    given = rows(rng, _ROWS)
    spark = Spark(session.newSession(), directory, given)
    settings = {"spark.sql.session.timeZone": session.conf.get("spark.sql.session.timeZone")}
    with without_spark(), lakelog.connect(directory / "lake", settings=settings) as lake:
        doors = Doors(lake, given)
        yield from compared(spark, doors, [condition(rng) for _ in range(CONDITIONS)], done)
        tables_of_values(lake)
        names = list(COLUMNS)
        yield from assigned(spark, lake, [(name := rng.choice(names), literal(rng, name)) for _ in range(VALUES)], done)


def main(given: Iterable[str]) -> int:
    """Compares what as many seeds draw as the arguments say; returns the exit code."""
    parser = argparse.ArgumentParser(prog="model.differential", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=40, help=f"{CONDITIONS} conditions and {VALUES} values each")
    options = parser.parse_args(list(given))
    done, wrong, start = Counter[str](), 0, time.monotonic()
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as temporary, spark_session(Path(temporary)) as session:
        session.sparkContext.setLogLevel("OFF")
        for seed in range(options.seed, options.seed + options.seeds):
            for difference in differences(session, Path(temporary, str(seed)), seed, done):
                wrong += 1
                print(f"seed {seed}, {difference}", flush=True)
            print(f"--- seed {seed}: {time.monotonic() - start:,.0f} s, {wrong} wrong", flush=True)
    for name, count in sorted(done.items()):
        print(f"{name:30}{count:8,}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
