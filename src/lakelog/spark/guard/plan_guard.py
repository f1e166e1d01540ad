"""Checks a user's text, as parsed by Spark's own parser, before any of it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

from lakelog.errors import NotAllowed
from lakelog.spark.guard.plan_rules import (
    ANALYSIS,
    COMMAND,
    COMMANDS,
    EXPRESSIONS,
    FILE_FORMATS,
    FUNCTIONS,
    LOGICAL,
    NOT_EVALUATED,
    QUERY_NODES,
    SETTINGS,
    TABLE_FUNCTIONS,
    VALUES,
    SparkCommand,
    why_not,
)
from lakelog.sql.runtime.statement import Privilege

_BUILTIN: Final = (["builtin"], ["system", "builtin"])
"""Allowed prefixes of a function name, because no other namespace contains one."""

_CALLING: Final = ("UNRESOLVED_FUNCTION", "PLAN_EXPRESSION", "UNRESOLVED_IDENTIFIER", "NAMED_PARAMETER", "PARAMETER")
"""Patterns of expressions other than values and operators."""

_MOST: Final = 100_000
"""Maximum number of nodes to check in one plan; each is a call to the JVM."""


class PlanGuard:
    """Decides if texts may run in one session: every class in their plans must be known and allowed.

    The guard checks exactly what Spark will run: the same text with the same parser and settings. ``files`` allows
    admins to read files of the server by path. Classic sessions only.
    """

    def __init__(self, spark: SparkSession, role: Privilege, files: bool = False) -> None:
        self._role = role
        self._files = files and role >= Privilege.ADMIN
        self._parser = spark._jsparkSession.sessionState().sqlParser()
        jvm: Any = spark._jvm
        pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
        known = {value.toString() for value in each(pattern.values())}
        self._calling = [getattr(pattern, name)() for name in _CALLING if name in known]

    def check(self, text: str) -> None:
        """Raises NotAllowed with the node, the reason and a remedy; also the errors of Spark's parser."""
        waiting, seen = [self._parser.parsePlan(text)], 0
        while waiting:
            node = waiting.pop()
            if not hasattr(node, "getClass"):
                continue  # a Python value: text, a number, None
            seen += 1
            if seen > _MOST:
                raise NotAllowed(
                    f"the plan of the statement has more than {_MOST} nodes: split it into several statements"
                )
            waiting += self._inside(node)

    def _inside(self, node: Any) -> list[Any]:
        """The parts to check in an object of the plan. Raises NotAllowed for a forbidden one."""
        name = node.getClass().getName().removesuffix("$")
        if name.startswith("scala."):
            return self._of_scala(name, node)
        if name.startswith(VALUES):
            return []
        if name in COMMANDS:
            return self._of_command(name, COMMANDS[name], node)
        parts_of = getattr(self, f"_parts_of_{name.rpartition('.')[2]}", None)
        if name in _WITH_PARTS and parts_of is not None:
            return list(parts_of(node))
        is_expression = name.startswith(EXPRESSIONS) and name not in NOT_EVALUATED
        if not (is_expression or name in QUERY_NODES) or name.startswith(f"{EXPRESSIONS}objects."):
            simple = name.rpartition(".")[2].rpartition("$")[2]
            raise NotAllowed(f"not allowed here: '{_words(simple)}': {why_not(simple)}")
        return _fields(node)

    def _of_scala(self, name: str, value: Any) -> list[Any]:
        if name in ("scala.None", "scala.collection.immutable.Nil") or name.startswith(VALUES):
            return []
        if name == "scala.Some" or name.startswith("scala.Tuple"):
            return _fields(value)
        if name.startswith("scala.collection."):
            return list(each(value))
        raise NotAllowed(f"not allowed here: '{name}' in a plan: {why_not('')}")

    def _of_command(self, name: str, command: SparkCommand, node: Any) -> list[Any]:
        what = _words(name.rpartition(".")[2].removesuffix("Command"))
        if self._role < command.needs:
            raise NotAllowed(
                f"'{what}' needs the role {command.needs.word}; these statements run as {self._role.word}. Ask an "
                "administrator"
            )
        if name == f"{COMMAND}CreateViewCommand" and not node.viewType().toString().startswith("LocalTempView"):
            raise NotAllowed("only temporary views can be created here: write CREATE TEMPORARY VIEW")
        if name in (f"{COMMAND}SetCommand", f"{COMMAND}ResetCommand"):
            self._check_setting(name, node)
        return [getattr(node, field)() for field in command.plans]

    def _check_setting(self, name: str, node: Any) -> None:
        given = node.kv() if name.endswith("SetCommand") and not name.endswith("ResetCommand") else node.config()
        key = None
        if given.isDefined():
            pair = given.get()
            key = pair if isinstance(pair, str) else pair._1()
        if key is None or key not in SETTINGS:
            what = "all options" if key is None else f"'{key}'"
            raise NotAllowed(
                f"{what} cannot be set or shown here: some of Spark's options open files, load classes or show "
                f"secrets. Allowed: {', '.join(sorted(SETTINGS))}"
            )

    def _parts_of_UnresolvedRelation(self, node: Any) -> list[Any]:  # noqa: N802 - the name of Spark's class
        parts = _texts(node.multipartIdentifier())
        if len(parts) == 1:
            return []
        named = ".".join(parts)
        if parts[0].lower() in FILE_FORMATS and len(parts) == 2:
            if self._files:
                return []
            raise NotAllowed(
                f"'{parts[0]}.`{parts[1]}`' reads files on the server by path, which is not allowed here. Read "
                "tables, or start the server with --allow-local-files and log in as an admin"
            )
        raise NotAllowed(f"'{named}' is not a table of this lake, and Spark's own catalog is empty: see SHOW TABLES")

    _parts_of_UnresolvedTableOrView = _parts_of_UnresolvedRelation

    def _parts_of_UnresolvedFunction(self, node: Any) -> list[Any]:  # noqa: N802
        self._check_function(_texts(node.nameParts()))
        return _fields(node)

    def _parts_of_UnresolvedTableValuedFunction(self, node: Any) -> list[Any]:  # noqa: N802
        parts = _texts(node.name())
        self._check_function(parts)
        if parts[-1].lower() not in TABLE_FUNCTIONS:
            raise NotAllowed(
                f"'{parts[-1]}' cannot follow FROM here; allowed functions: {', '.join(sorted(TABLE_FUNCTIONS))}"
            )
        return _fields(node)

    def _parts_of_UnresolvedGenerator(self, node: Any) -> list[Any]:  # noqa: N802
        name = node.name()
        front = [part.get() for part in (name.catalog(), name.database()) if part.isDefined()]
        self._check_function([*front, name.funcName()])
        return [node.children()]

    def _parts_of_UnresolvedInlineTable(self, node: Any) -> list[Any]:  # noqa: N802
        """The cells of VALUES, of which there may be thousands; they are skipped if none calls anything."""
        if self._calling and not any(node.containsPattern(pattern) for pattern in self._calling):
            return []
        return _fields(node)

    def _parts_of_LocalRelation(self, node: Any) -> list[Any]:  # noqa: N802
        return []  # VALUES that the parser has evaluated already

    def _check_function(self, parts: list[str]) -> None:
        front, name = [part.lower() for part in parts[:-1]], parts[-1].lower()
        if name in FUNCTIONS:
            raise NotAllowed(f"function '{name}' is not allowed here: {FUNCTIONS[name]}. Leave it out")
        if front and front not in _BUILTIN:
            raise NotAllowed(
                f"function '{'.'.join(parts)}' is not built into Spark, and other functions are not allowed here"
            )


_WITH_PARTS: Final = frozenset(
    (
        f"{ANALYSIS}UnresolvedRelation",
        f"{ANALYSIS}UnresolvedTableOrView",
        f"{ANALYSIS}UnresolvedFunction",
        f"{ANALYSIS}UnresolvedTableValuedFunction",
        f"{ANALYSIS}UnresolvedGenerator",
        f"{ANALYSIS}UnresolvedInlineTable",
        f"{LOGICAL}LocalRelation",
    )
)


def each(collection: Any) -> Iterator[Any]:
    """The elements of a Scala collection."""
    there = collection.iterator()
    while there.hasNext():
        yield there.next()


def _fields(product: Any) -> list[Any]:
    return list(_product(product.productIterator()))


def _product(there: Any) -> Iterator[Any]:
    while there.hasNext():
        yield there.next()


def _texts(names: Any) -> list[str]:
    return [str(name) for name in each(names)]


def _words(simple: str) -> str:
    """``AddJarsCommand`` as ``add jars``."""
    bare = simple.removesuffix("Command").removeprefix("Unresolved")
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", bare).lower()
