"""What users must not do, each way refused with a reason, and the worker serving on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from lakelog.service.terminal import Privilege, Terminal, TerminalConfig
from terminals import done, rows, run

SECRET = "hunter2"


@pytest.fixture(scope="module")
def bucket_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that no statement may show, and a place that none may write to."""
    bucket_key = tmp_path_factory.mktemp("attacks")
    for name in ("secret.csv", "secret.txt", "secret.json"):
        (bucket_key / name).write_text(f'{{"word": "{SECRET}"}}\n' if name.endswith("json") else f"{SECRET}\n")
    (bucket_key / "secret.xml").write_text(
        f'<!DOCTYPE a [<!ENTITY e SYSTEM "file://{bucket_key}/secret.txt">]><a>&e;</a>'
    )
    return bucket_key


@pytest.fixture(scope="module")
def admin(bucket_key: Path) -> Iterator[Terminal]:
    config = TerminalConfig(str(bucket_key / "warehouse"), role=Privilege.ADMIN, storage_options={})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKELOG_TEST_SECRET", SECRET)
        with Terminal(config) as terminal:
            done(
                terminal, "CREATE DATABASE db; CREATE TABLE db.t (id INT, name STRING, PRIMARY KEY (id)) USING lakelog"
            )
            done(terminal, "INSERT INTO db.t VALUES (1, 'a')")
            yield terminal


FILES = (
    "SELECT * FROM csv.`{0}/secret.csv`",
    "SELECT * FROM CSV.`file://{0}/secret.csv`",
    "SELECT * FROM `csv`.`{0}/secret.csv`",
    "SELECT * FROM text.`{0}/secret.txt`",
    "SELECT * FROM json.`{0}/secret.json`",
    "SELECT * FROM parquet.`{0}/secret.csv`",
    "SELECT * FROM orc.`{0}/secret.csv`",
    "SELECT * FROM binaryFile.`{0}/secret.txt`",
    "SELECT * FROM lakelog.`{0}/secret.txt`",
    "SELECT * FROM spark_catalog.csv.`{0}/secret.csv`",
    "TABLE text.`{0}/secret.txt`",
    "FROM text.`{0}/secret.txt` SELECT *",
    "FROM text.`{0}/secret.txt` |> SELECT value",
    "FROM text.`{0}/secret.txt` |> AGGREGATE max(value)",
    "(SELECT * FROM text.`{0}/secret.txt`)",
    "WITH x AS (SELECT * FROM text.`{0}/secret.txt`) SELECT * FROM x",
    "WITH x AS (WITH y AS (TABLE text.`{0}/secret.txt`) SELECT * FROM y) SELECT * FROM x",
    "SELECT (SELECT max(value) FROM text.`{0}/secret.txt`)",
    "SELECT 1 WHERE EXISTS (SELECT * FROM text.`{0}/secret.txt`)",
    "SELECT * FROM db.t WHERE name IN (SELECT value FROM text.`{0}/secret.txt`)",
    "SELECT * FROM db.t, LATERAL (SELECT * FROM text.`{0}/secret.txt`)",
    "SELECT * FROM db.t JOIN text.`{0}/secret.txt` ON true",
    "SELECT * FROM db.t UNION ALL SELECT 1, value FROM text.`{0}/secret.txt`",
    "SELECT * FROM (VALUES ((SELECT max(value) FROM text.`{0}/secret.txt`))) AS v(x)",
    "SELECT * FROM db.t ORDER BY (SELECT max(value) FROM text.`{0}/secret.txt`)",
    "SELECT id FROM db.t GROUP BY id HAVING max(name) < (SELECT max(value) FROM text.`{0}/secret.txt`)",
    "SELECT transform(array(1), x -> (SELECT max(value) FROM text.`{0}/secret.txt`))",
    "SELECT * FROM range((SELECT count(*) FROM text.`{0}/secret.txt`))",
    "SELECT * FROM db.t TIMESTAMP AS OF (SELECT max(value) FROM text.`{0}/secret.txt`)",
    "SELECT * FROM STREAM text.`{0}/`",
    "SELECT * FROM STREAM(text.`{0}/`)",
    "SELECT * FROM IDENTIFIER('text.`{0}/secret.txt`')",
    "SELECT * FROM IDENTIFIER('te' || 'xt.`{0}/secret.txt`')",
    "SELECT * FROM text.`{0}/secret.txt` TABLESAMPLE (10 ROWS)",
    "SELECT * FROM text.`{0}/secret.txt` /*+ OPTIONS('read.mode' = 'log') */",
    "SELECT * FROM text.`{0}/secret.txt` PIVOT (count(*) FOR value IN ('a'))",
    "SELECT * FROM (SELECT 1) WITH ('path' = '{0}/secret.txt')",
    "EXPLAIN SELECT * FROM text.`{0}/secret.txt`",
    "EXPLAIN EXTENDED CREATE TEMPORARY VIEW v AS SELECT * FROM text.`{0}/secret.txt`",
    "EXPLAIN INSERT OVERWRITE DIRECTORY '{0}/out' USING csv SELECT 1",
    "DESCRIBE QUERY SELECT * FROM csv.`{0}/secret.csv`",
    "DESCRIBE text.`{0}/secret.txt`",
    "DESCRIBE EXTENDED text.`{0}/secret.txt`",
    "CREATE TEMPORARY VIEW v AS SELECT * FROM text.`{0}/secret.txt`",
    "CREATE TEMPORARY VIEW v USING csv OPTIONS (path '{0}/secret.csv')",
    "CREATE TEMPORARY VIEW v (word STRING) USING text OPTIONS (path '{0}/secret.txt')",
    "CREATE GLOBAL TEMPORARY VIEW v AS SELECT * FROM text.`{0}/secret.txt`",
    "CREATE VIEW v AS SELECT * FROM text.`{0}/secret.txt`",
    "CREATE TABLE v USING csv OPTIONS (path '{0}/secret.csv')",
    "CREATE TABLE v USING text LOCATION '{0}/secret.txt'",
    "CREATE TABLE v (a STRING) STORED AS TEXTFILE LOCATION '{0}'",
    "CREATE EXTERNAL TABLE v (a STRING) ROW FORMAT DELIMITED LOCATION '{0}'",
    "CREATE TABLE v USING parquet AS SELECT 1",
    "CREATE TABLE db.v USING lakelog LOCATION '{0}/out' AS SELECT 1 AS a",
    "CREATE TABLE db.v USING lakelog AS SELECT * FROM text.`{0}/secret.txt`",
    "CREATE TABLE db.v LIKE text.`{0}/secret.txt` USING lakelog",
    "CREATE TABLE db.v LIKE db.t USING csv LOCATION '{0}/out'",
    "CREATE DATABASE elsewhere LOCATION '{0}/out'",
    "CACHE TABLE v AS SELECT * FROM text.`{0}/secret.txt`",
    "CACHE TABLE text.`{0}/secret.txt`",
    "INSERT INTO db.t SELECT 2, value FROM text.`{0}/secret.txt`",
    "INSERT OVERWRITE db.t SELECT 2, value FROM text.`{0}/secret.txt`",
    "INSERT INTO db.t REPLACE WHERE id IN (SELECT length(value) FROM text.`{0}/secret.txt`) VALUES (7, 'x')",
    "INSERT INTO text.`{0}/out` VALUES ('x')",
    "INSERT OVERWRITE DIRECTORY '{0}/out' USING csv SELECT 1",
    "INSERT OVERWRITE LOCAL DIRECTORY '{0}/out' STORED AS TEXTFILE SELECT 1",
    "FROM text.`{0}/secret.txt` INSERT INTO db.t SELECT 2, value",
    "MERGE INTO db.t USING (SELECT * FROM text.`{0}/secret.txt`) s ON t.name = s.value WHEN MATCHED THEN DELETE",
    "MERGE INTO db.t USING text.`{0}/secret.txt` s ON t.name = s.value WHEN NOT MATCHED THEN INSERT (id) VALUES (2)",
    "UPDATE db.t SET name = (SELECT max(value) FROM text.`{0}/secret.txt`)",
    "DELETE FROM db.t WHERE name < (SELECT max(value) FROM text.`{0}/secret.txt`)",
    "LOAD DATA LOCAL INPATH '{0}/secret.txt' INTO TABLE db.t",
    "LOAD DATA INPATH '{0}/secret.txt' INTO TABLE db.t",
    "ALTER TABLE db.t SET LOCATION '{0}/out'",
    "ADD FILE '{0}/secret.txt'",
    "ADD JAR '{0}/secret.txt'",
    "ADD ARCHIVE '{0}/secret.txt'",
    "LIST FILES",
    "LIST JARS",
    "REFRESH '{0}'",
    "ANALYZE TABLE text.`{0}/secret.txt` COMPUTE STATISTICS",
    "MSCK REPAIR TABLE text.`{0}/secret.txt`",
    "SELECT xpath_string('<!DOCTYPE a [<!ENTITY e SYSTEM \"file://{0}/secret.txt\">]><a>&e;</a>', 'a')",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '{0}/secret.txt'))",
    "SELECT from_protobuf(X'00', 'M', '{0}/secret.txt')",
    "SELECT from_avro(X'00', '\"int\"', map('avroSchemaUrl', '{0}/secret.json'))",
    "SELECT * FROM db.t JOIN text.`{0}/secret.txt` FOR SYSTEM_TIME AS OF PROCTIME() AS s ON t.name = s.value",
    "SELECT * FROM db.t /*+ OPTIONS('properties.ssl.ca.location' = '{0}/secret.txt') */",
    "SELECT * FROM db.t WITH ('properties.plugin.library.paths' = '{0}/secret.txt')",
    "SELECT * FROM db.t /*+ OPTIONS('log-store.address' = '{0}/secret.txt') */",
    "SELECT * FROM db.t /*+ OPTIONS('s3.endpoint' = 'http://169.254.169.254/') */",
    "SELECT * FROM db.t /*+ OPTIONS('hadoop.x' = 'y') */",
    "INSERT INTO db.t /*+ OPTIONS('properties.sasl.kerberos.kinit.cmd' = 'touch {0}/out') */ VALUES (3, 'c')",
)
CODE = (
    "SELECT reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT java_method('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT try_reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT REFLECT ('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT `reflect`('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT builtin.reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT system.builtin.reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT /* x */ reflect/**/('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT transform(array('LAKELOG_TEST_SECRET'), x -> reflect('java.lang.System', 'getenv', x))",
    "SELECT * FROM VALUES (reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET'))",
    "INSERT INTO db.t VALUES (9, reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET'))",
    "SELECT max(name) FILTER (WHERE reflect('java.lang.System', 'getenv', 'X') IS NULL) OVER () FROM db.t",
    "SELECT id FROM db.t LATERAL VIEW explode(array(reflect('java.lang.System', 'getenv', 'X'))) e AS x",
    "SELECT id FROM db.t LIMIT length(reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET'))",
    "SELECT id FROM db.t TIMESTAMP AS OF reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')",
    "SELECT TRANSFORM (id) USING 'cat' AS (x STRING) FROM db.t",
    "FROM db.t MAP id USING 'sh -c env' AS (x STRING)",
    "FROM (SELECT 1 AS a) REDUCE a USING 'env' AS x",
    'EXECUTE IMMEDIATE \'SELECT reflect("java.lang.System", "getenv", "LAKELOG_TEST_SECRET")\'',
    "EXECUTE IMMEDIATE 'SELECT ' || '1'",
    "BEGIN SELECT reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET'); END",
    "BEGIN SELECT 1; END",
    "DECLARE VARIABLE x STRING DEFAULT 'a'",
    "DECLARE x = (SELECT 1)",
    "SET VAR x = (SELECT reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET'))",
    "CREATE FUNCTION f AS 'java.lang.Runtime' USING JAR '/tmp/x.jar'",
    "CREATE TEMPORARY FUNCTION f AS 'org.apache.spark.sql.catalyst.expressions.CallMethodViaReflection'",
    "CREATE TEMPORARY FUNCTION f() RETURNS STRING RETURN reflect('java.lang.System', 'getenv', 'X')",
    "CREATE OR REPLACE TEMPORARY FUNCTION abs(x INT) RETURNS INT RETURN 1",
    "CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE PYTHON AS $$ return 1 $$",
    "SELECT spark_catalog.default.f(1)",
    "SELECT * FROM python_worker_logs()",
    "CALL other.sys.run('x')",
    "CREATE TABLE db.v (id INT, x STRING GENERATED ALWAYS AS (reflect('a', 'b'))) USING lakelog",
    "CREATE TABLE db.v (id INT, x STRING DEFAULT reflect('a', 'b')) USING lakelog",
)
SETTINGS = (
    "SET spark.sql.runSQLOnFiles = true",
    "SET `spark.sql.runSQLOnFiles` = true",
    "SET spark.sql.variable.substitute = true",
    "SET spark.sql.scripting.enabled = true",
    "SET spark.sql.catalog.evil = org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    "SET spark.sql.extensions = x.Y",
    "SET spark.sql.warehouse.dir = /tmp",
    "SET spark.hadoop.fs.s3a.secret.key",
    "SET spark.driver.extraJavaOptions",
    "SET hive.exec.pre.hooks = x.Y",
    "SET",
    "SET -v",
    "RESET",
    "RESET spark.sql.runSQLOnFiles",
    "USE NAMESPACE spark_catalog.default.x",
)


@pytest.mark.parametrize("text", [*FILES, *CODE, *SETTINGS])
def test_an_admin_is_refused(admin: Terminal, bucket_key: Path, text: str) -> None:
    pid = admin.state().pid
    execution = run(admin, text.replace("{0}", str(bucket_key)))
    assert execution.state == "failed", execution.rows()
    error = execution.snapshot().error
    assert error is not None and error.message
    assert error.kind not in ("InternalError", "ProcessEnded", "AttributeError", "TypeError", "KeyError"), error
    assert "Py4J" not in error.kind
    told = orjson.dumps([event.data for event in execution.events()]).decode()
    assert SECRET not in told
    assert not (bucket_key / "out").exists()
    assert rows(admin, "SELECT id, name FROM db.t") == [[1, "a"]]
    assert admin.state().pid == pid


@pytest.mark.parametrize("text", ["SELECT '${env:LAKELOG_TEST_SECRET}'", "SELECT '${system:user.home}'"])
def test_variables_in_a_text_are_text(admin: Terminal, text: str) -> None:
    assert rows(admin, text) == [[text[8:-1]]]


def test_the_refused_functions_are_unregistered_even_for_unchecked_texts(admin: Terminal) -> None:
    found = {name for (name,) in rows(admin, "SHOW FUNCTIONS LIKE '*refl*'")}
    assert found == set()
    assert rows(admin, "SHOW FUNCTIONS LIKE 'xpath*|java_method|from_xml|from_protobuf'") == []


COMMANDS = (
    ("CREATE TEMPORARY VIEW w AS SELECT 1", Privilege.WRITE),
    ("CACHE TABLE w AS SELECT 1", Privilege.WRITE),
    ("SET spark.sql.session.timeZone = 'UTC'", Privilege.ADMIN),
    ("SET TIME ZONE 'UTC'", Privilege.ADMIN),
    ("EXPLAIN CREATE TEMPORARY VIEW w AS SELECT 1", Privilege.WRITE),
)


@pytest.fixture(scope="module")
def reader(bucket_key: Path, admin: Terminal) -> Iterator[Terminal]:
    with Terminal(TerminalConfig(str(bucket_key / "warehouse"), role=Privilege.READ)) as terminal:
        yield terminal


@pytest.mark.parametrize(("text", "needs"), COMMANDS)
def test_sparks_own_commands_need_their_rights_too(reader: Terminal, text: str, needs: Privilege) -> None:
    error = run(reader, text).snapshot().error
    assert error is not None and error.refused
    assert f"needs the role {needs.word}" in error.message and "run as read" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "EXPLAIN SELECT * FROM db.t",
        "SELECT * FROM db.`t$snapshots`",
        "SELECT * FROM db.t VERSION AS OF 1",
        "SHOW FUNCTIONS LIKE 'abs'",
        "DESCRIBE FUNCTION abs",
        "DESCRIBE QUERY SELECT 1",
        "SHOW VIEWS",
    ],
)
def test_a_reader_reads(reader: Terminal, text: str) -> None:
    done(reader, text)


def test_an_admin_reads_files_where_the_server_allows_it(bucket_key: Path, admin: Terminal) -> None:
    config = TerminalConfig(str(bucket_key / "warehouse"), role=Privilege.ADMIN, allow_local_files=True)
    with Terminal(config) as terminal:
        assert rows(terminal, f"SELECT * FROM text.`{bucket_key}/secret.txt`") == [[SECRET]]
        error = run(terminal, CODE[0]).snapshot().error
        assert error is not None and error.refused
