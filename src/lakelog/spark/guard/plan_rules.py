"""The allowed nodes in the parsed plan of a user's text; everything else is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakelog.sql.runtime.statement import Privilege

CATALYST: Final = "org.apache.spark.sql.catalyst."
LOGICAL: Final = f"{CATALYST}plans.logical."
ANALYSIS: Final = f"{CATALYST}analysis."
COMMAND: Final = "org.apache.spark.sql.execution.command."
EXPRESSIONS: Final = f"{CATALYST}expressions."

_LOGICAL_NODES: Final = """
    Aggregate BinByOutputAliases Distinct Except Filter Generate GlobalLimit HintInfo Intersect Join JoinHint
    LateralJoin Limit LimitAll LimitAndOffset LocalLimit NearestByJoin Offset OffsetAndLimit OneRowRelation Pivot
    Project RebalancePartitions Repartition RepartitionByExpression Sample Sort Subquery SubqueryAlias Tail Transpose
    Union UnionLoop UnionLoopRef UnresolvedBinBy UnresolvedHint UnresolvedWith Unpivot Window WithWindowDefinition
"""
_ANALYSIS_NODES: Final = """
    MultiAlias UnresolvedAlias UnresolvedAttribute UnresolvedDeduplicate UnresolvedEventTimeWatermark
    UnresolvedExtractValue UnresolvedHaving UnresolvedOrdinal UnresolvedPipeAggregateOrdinal UnresolvedQualify
    UnresolvedRegex UnresolvedSeed UnresolvedStar UnresolvedStarExceptOrReplace UnresolvedStarWithColumns
    UnresolvedStarWithColumnsRenames UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTranspose
    UnresolvedWithinGroup
"""
_FOREIGN_CODE: Final = """
    CallMethodViaReflection TryReflect PythonUDF PythonUDAF PythonUDTF UnresolvedPolymorphicPythonUDTF ScalaUDF
    ExternalUDF
"""
_TABLE_FUNCTIONS: Final = """
    collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer range sql_keywords stack
    variant_explode variant_explode_outer
"""
_SETTINGS: Final = """
    adaptive.coalescePartitions.enabled adaptive.enabled adaptive.skewJoin.enabled ansi.enabled
    autoBroadcastJoinThreshold caseSensitive cbo.enabled files.maxPartitionBytes groupByOrdinal legacy.timeParserPolicy
    orderByOrdinal session.timeZone shuffle.partitions storeAssignmentPolicy timestampType
"""

QUERY_NODES: Final = frozenset(
    [LOGICAL + name for name in _LOGICAL_NODES.split()] + [ANALYSIS + name for name in _ANALYSIS_NODES.split()]
)
"""Allowed nodes of queries. Names of tables and functions are checked one by one."""

NOT_EVALUATED: Final = frozenset(EXPRESSIONS + name for name in _FOREIGN_CODE.split())
"""Expressions that run code from outside Spark."""

VALUES: Final = (
    "java.",
    "scala.Enumeration",
    "scala.math.",
    "scala.runtime.",
    "org.apache.spark.sql.types.",
    "org.apache.spark.unsafe.",
    f"{CATALYST}AliasIdentifier",
    f"{CATALYST}TableIdentifier",
    f"{CATALYST}FunctionIdentifier",
    f"{CATALYST}plans.Inner",
    f"{CATALYST}plans.Cross",
    f"{CATALYST}plans.Left",
    f"{CATALYST}plans.Right",
    f"{CATALYST}plans.Full",
    f"{CATALYST}plans.Natural",
    f"{CATALYST}plans.Using",
    f"{CATALYST}plans.Existence",
    f"{CATALYST}plans.Nearest",
)
"""Class name prefixes of values that contain neither a plan nor an expression."""

FUNCTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), "it calls Java code by its name"),
    **dict.fromkeys(("from_avro", "to_avro", "schema_of_avro"), "its options may name a file or an address"),
    **dict.fromkeys(("from_protobuf", "to_protobuf"), "it reads a file of the server"),
    **dict.fromkeys(("from_xml", "schema_of_xml"), "its options may name a file"),
    **dict.fromkeys(("xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int"), "XML may name files"),
    **dict.fromkeys(("xpath_long", "xpath_number", "xpath_short", "xpath_string"), "XML may name files"),
}
"""Removed functions, with the reason."""

TABLE_FUNCTIONS: Final = frozenset(_TABLE_FUNCTIONS.split())
"""Functions allowed after FROM."""

FILE_FORMATS: Final = frozenset(("avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"))
"""Prefixes allowed before a path if files may be read."""

SETTINGS: Final = frozenset(f"spark.sql.{key}" for key in _SETTINGS.split())
"""Session options that an admin may set: none of them names a file, a class or an address."""


@dataclass(frozen=True)
class SparkCommand:
    """An allowed statement of Spark: the required privilege, and the fields that contain plans."""

    needs: Privilege
    plans: tuple[str, ...] = ()


COMMANDS: Final[Mapping[str, SparkCommand]] = {
    f"{COMMAND}ExplainCommand": SparkCommand(Privilege.READ, ("logicalPlan",)),
    f"{COMMAND}DescribeQueryCommand": SparkCommand(Privilege.READ, ("plan",)),
    f"{LOGICAL}DescribeRelation": SparkCommand(Privilege.READ, ("relation",)),
    f"{LOGICAL}DescribeColumn": SparkCommand(Privilege.READ, ("relation",)),
    f"{LOGICAL}ShowColumns": SparkCommand(Privilege.READ, ("child",)),
    f"{LOGICAL}DescribeFunction": SparkCommand(Privilege.READ),
    f"{LOGICAL}ShowFunctions": SparkCommand(Privilege.READ),
    f"{LOGICAL}ShowViews": SparkCommand(Privilege.READ),
    f"{COMMAND}CreateViewCommand": SparkCommand(Privilege.WRITE, ("plan",)),
    f"{COMMAND}DropTempViewCommand": SparkCommand(Privilege.WRITE),
    f"{LOGICAL}DropView": SparkCommand(Privilege.WRITE),
    f"{LOGICAL}CacheTable": SparkCommand(Privilege.WRITE, ("table",)),
    f"{LOGICAL}CacheTableAsSelect": SparkCommand(Privilege.WRITE, ("plan",)),
    f"{LOGICAL}UncacheTable": SparkCommand(Privilege.WRITE, ("table",)),
    f"{COMMAND}ClearCacheCommand": SparkCommand(Privilege.WRITE),
    f"{COMMAND}SetCommand": SparkCommand(Privilege.ADMIN),
    f"{COMMAND}ResetCommand": SparkCommand(Privilege.ADMIN),
}

_FILES: Final = "the terminal cannot read or write files of the server by path"
_CODE: Final = "the terminal does not run user code"
_LATER: Final = "a statement that is built at run time cannot be checked in advance: write it in full"
_WHY: Final[tuple[tuple[str, str], ...]] = (
    ("AddJars AddFiles AddArchives ListJars ListFiles ListArchives", _FILES),
    ("InsertIntoDir LoadData RefreshResource CreateTempViewUsing InsertIntoDataSourceDir", _FILES),
    ("ScriptTransformation CreateFunction CreateUserDefinedFunction CreateSQLFunction", _CODE),
    ("UnresolvedExecuteImmediate CompoundBody PlanWithUnresolvedIdentifier ExpressionWithUnresolvedIdentifier", _LATER),
    ("SetVariable CreateVariable DropVariable DeclareCursor SingleStatement", _LATER),
    (
        "CreateTable CreateTableAsSelect CreateTableLike ReplaceTable",
        "tables must be lakelog tables: write USING lakelog",
    ),
    ("InsertIntoStatement", "INSERT writes to lakelog tables only"),
)


def why_not(simple_name: str) -> str:
    """The reason for refusing a class of Spark's plans."""
    bare = simple_name.removesuffix("Command")
    for names, why in _WHY:
        if bare in names.split():
            return why
    return "of Spark's own statements, the terminal runs only queries, EXPLAIN, DESCRIBE, SHOW and temporary views"
