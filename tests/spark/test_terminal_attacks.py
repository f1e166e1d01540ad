"""What users must not do, each way refused with a reason, and the worker serving on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from lakelog.service.terminal import Privilege, Terminal, TerminalConfig
from terminals import done, rows, run

SECRET = "hunter2"
REFLECT = "reflect('java.lang.System', 'getenv', 'LAKELOG_TEST_SECRET')"
QUOTED = REFLECT.replace("'", "''")


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
            done(terminal, "CREATE TABLE db.k (id INT, day STRING, PRIMARY KEY (id, day)) PARTITIONED BY (day)")
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


# the same things said differently: other spellings, parameters, procedures and names that lead out
SPELLINGS = (
    "SELECT * FROM /*x*/ csv /**/ . /**/ `{0}/secret.csv`",
    "SELECT * FROM text/*`*/.`{0}/secret.txt`",
    "SELECT\u00a0*\u00a0FROM text.`{0}/secret.txt`",
    "SELECT * FROM \uff43\uff53\uff56.`{0}/secret.csv`",
    "SELECT * FROM `org.apache.spark.sql.execution.datasources.csv.CSVFileFormat`.`{0}/secret.csv`",
    "SELECT * FROM delta.`{0}/secret.csv`",
    "SELECT * FROM jdbc.`jdbc:derby:{0}/out`",
    "SELECT * FROM state.`{0}/out`",
    "SELECT * FROM socket.`127.0.0.1:80`",
    "SELECT * FROM read_files('{0}/secret.txt')",
    "SELECT * FROM VALUES (1) AS t(a) |> JOIN text.`{0}/secret.txt` ON true",
    "CREATE TEMPORARY VIEW csv AS SELECT 1; SELECT * FROM csv.`{0}/secret.csv`",
    "SELECT /*+ BROADCAST(text) */ * FROM text.`{0}/secret.txt`",
    "INSERT INTO db.t TABLE text.`{0}/secret.txt`",
    "INSERT INTO db.t (id, name) WITH s AS (SELECT value FROM text.`{0}/secret.txt`) SELECT 1, value FROM s",
    "MERGE WITH SCHEMA EVOLUTION INTO db.t USING csv.`{0}/secret.csv` s ON true WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM db.t WHERE EXISTS (SELECT 1 FROM IDENTIFIER('text.`{0}/secret.txt`'))",
    "WITH s AS (SELECT 1 AS a) INSERT OVERWRITE DIRECTORY '{0}/out' USING csv SELECT * FROM s",
    "FROM (SELECT 1 AS a) s INSERT OVERWRITE DIRECTORY '{0}/out' USING csv SELECT a INSERT INTO db.t SELECT a, 'x'",
    "CREATE MATERIALIZED VIEW mv AS SELECT * FROM text.`{0}/secret.txt`",
    "CREATE STREAMING TABLE st AS SELECT * FROM STREAM text.`{0}/`",
    "SELECT 'a\\\\'; ADD JAR '{0}/secret.txt'; SELECT ''",
    "SELECT r'\\'; ADD FILE '{0}/secret.txt'; SELECT ''",
    "REPLACE TABLE db.t USING csv LOCATION '{0}/out' AS SELECT 1 AS id",
    "EXPORT TABLE db.t TO '{0}/out'",
    "IMPORT TABLE x FROM '{0}'",
    "DFS -cat {0}/secret.txt",
    "! cat {0}/secret.txt",
    "COPY INTO db.t FROM '{0}/secret.csv' FILEFORMAT = CSV",
    "DESCRIBE DETAIL '{0}'",
    "OPTIMIZE '{0}/secret.txt'",
    "SHOW CREATE TABLE text.`{0}/secret.txt`",
    "SHOW TBLPROPERTIES text.`{0}/secret.txt`",
    "REFRESH TABLE text.`{0}/secret.txt`",
    "COMMENT ON TABLE text.`{0}/secret.txt` IS 'x'",
)
CODE_SAID_OTHERWISE = (
    f"\ufeffSELECT {REFLECT}",
    f"/* /* */ SELECT 1 */ SELECT {REFLECT}",
    f"SELECT session.{REFLECT}",
    f"SELECT system.session.{REFLECT}",
    f"SELECT {REFLECT.upper().replace('LANG.SYSTEM', 'lang.System')}",
    f"SELECT \uff52eflect{REFLECT.removeprefix('reflect')}",
    f"SELECT `refl\\u0065ct`{REFLECT.removeprefix('reflect')}",
    f"SELECT 1 /*+ OPTIONS('x' = '*/ , {REFLECT} /* ') */",
    f"UPDATE db.t SET name = {REFLECT} WHERE id = 1",
    f"DELETE FROM db.t WHERE {REFLECT} = 'x'",
    f"MERGE INTO db.t USING (VALUES (1)) s(i) ON t.id = s.i WHEN MATCHED THEN UPDATE SET name = {REFLECT}",
    f"ALTER TABLE db.t ADD COLUMN x STRING DEFAULT {REFLECT}",
    f"ALTER TABLE db.t ALTER COLUMN name SET DEFAULT {REFLECT}",
    f"ALTER TABLE db.k DROP PARTITION (day = {REFLECT})",
    f"CREATE TABLE db.v (id INT, CONSTRAINT c CHECK ({REFLECT} IS NULL)) USING lakelog",
    f"OPTIMIZE db.t WHERE {REFLECT} IS NULL",
    f"CALL sys.compact(table => 'db.t', where => '{QUOTED} is null')",
    "CALL sys.compact(table => 'db.t', order_strategy => 'order', order_by => 'reflect(1)')",
    f"EXPLAIN CODEGEN SELECT {REFLECT}",
    f"SELECT * FROM db.t TABLESAMPLE ({REFLECT} ROWS)",
    f"SELECT * FROM db.t FOR SYSTEM_TIME AS OF (SELECT {REFLECT})",
    "EXECUTE IMMEDIATE 'SELECT 1' INTO x USING 1 AS a",
    "BEGIN IF true THEN ADD JAR '/tmp/x.jar'; END IF; END",
    "DECLARE OR REPLACE VARIABLE x STRING DEFAULT reflect('a', 'b')",
    "SELECT :x, ?",
    "CREATE TEMPORARY VIEW IDENTIFIER('a' || 'b') AS SELECT 1",
    "CREATE FUNCTION f(x STRING) RETURNS TABLE (y STRING) RETURN SELECT 1",
    "CREATE TEMPORARY FUNCTION f(x STRING) RETURNS TABLE (y STRING) LANGUAGE PYTHON AS $$ class h: pass $$",
    "REFRESH FUNCTION reflect",
    "CREATE TABLE db.v (id INT, PRIMARY KEY (id)) USING lakelog TBLPROPERTIES ('merge-engine' = 'os:system')",
    "SET SPARK.SQL.RUNSQLONFILES = true",
    "SET spark.sql.session.timeZone = UTC ; SET spark.sql.runSQLOnFiles=true",
)
NAMES = (
    "SELECT * FROM db.`../../secret.txt`",
    "SELECT * FROM db.`t$branch_../../../secret`",
    "SELECT * FROM db.`t$files/../../..`",
    "SELECT * FROM db.t VERSION AS OF '../../../secret.txt'",
    "SELECT * FROM db.t /*+ OPTIONS('scan.tag-name' = '../../../../secret.txt') */",
    "SELECT * FROM db.t /*+ OPTIONS('consumer-id' = '../../../../out') */",
    "INSERT INTO db.t /*+ OPTIONS('checkpointLocation' = '{0}/out') */ VALUES (3, 'x')",
    "INSERT OVERWRITE db.t /*+ OPTIONS('overwrite.data-files' = '[\"../../../secret.txt\"]') */ VALUES (5, 'q')",
    "CALL sys.create_tag(table => 'db.t', tag => '../../../../out')",
    "CALL sys.create_branch(table => 'db.t', branch => '../../../../out')",
    "CALL sys.reset_consumer(table => 'db.t', consumer_id => '../../../../out', next_snapshot_id => 1)",
    "CALL sys.rollback_to(table => 'db.t', tag => '../../../secret.txt')",
    "CALL sys.remove_orphan_files(table => '../..', older_than => '2100-01-01 00:00:00')",
    "CREATE TABLE db.v (id INT) USING lakelog OPTIONS (path '{0}/out')",
    "CREATE TABLE db.v (id INT) USING lakelog TBLPROPERTIES ('changelog-file.prefix' = '../../../out')",
    "CREATE TABLE db.v (id INT, p INT) USING lakelog PARTITIONED BY (p) "
    "TBLPROPERTIES ('partition.default-name' = '../../../out')",
    "CREATE TABLE db.v (id INT, PRIMARY KEY (id)) USING lakelog "
    "TBLPROPERTIES ('log.system' = 'embedded', 'kafka.bootstrap.servers' = '{0}/out.sqlite')",
    "CREATE TABLE db.`../../out` (id INT) USING lakelog",
    "CREATE DATABASE `../out`",
    "DROP DATABASE `..` CASCADE",
    "ALTER TABLE db.t RENAME TO db.`../../out`",
    "ALTER TABLE db.t SET TBLPROPERTIES ('Kafka.Bootstrap.Servers' = '{0}/out.sqlite', 'log.system' = 'embedded')",
    "ALTER TABLE db.k ADD PARTITION (day = 'x') LOCATION '{0}/out'",
    "ALTER TABLE db.t CREATE BRANCH `../../../../out`",
    "CREATE CATALOG c WITH ('warehouse' = ' {0}/out')",
    "CREATE CATALOG c WITH ('warehouse' = 'local:{0}/out')",
    "CREATE CATALOG c WITH ('warehouse' = '../out')",
    "CREATE CATALOG c WITH ('warehouse' = '{0}/out', 'catalog.type' = 'rest', 'catalog.uri' = 'file://{0}')",
    "CREATE CATALOG c WITH ('warehouse' = 'hdfs:///{0}'); SHOW DATABASES IN c",
    "CREATE CATALOG c WITH ('warehouse' = 's3://b/w', 'catalog.type' = 'sql', "
    "'catalog.uri' = 'mysql+pymysql://u@127.0.0.1:1/x?local_infile=1')",
    "USE CATALOG spark_catalog",
    "SELECT * FROM global_temp.v",
)


@pytest.mark.parametrize("text", [*FILES, *CODE, *SETTINGS, *SPELLINGS, *CODE_SAID_OTHERWISE, *NAMES])
def test_an_admin_is_refused(admin: Terminal, bucket_key: Path, text: str) -> None:
    before, pid = sorted(bucket_key.iterdir()), admin.state().pid
    execution = run(admin, text.replace("{0}", str(bucket_key)))
    assert execution.state == "failed", execution.rows()
    error = execution.snapshot().error
    assert error is not None and error.message
    assert error.kind not in ("InternalError", "ProcessEnded", "AttributeError", "TypeError", "KeyError"), error
    assert "Py4J" not in error.kind
    assert SECRET not in orjson.dumps([event.data for event in execution.events()]).decode()
    assert sorted(bucket_key.iterdir()) == before
    assert rows(admin, "SELECT id, name FROM db.t") == [[1, "a"]]
    assert admin.state().pid == pid


HARMLESS = (
    f"SELECT 1 --\rUNION SELECT {REFLECT}",
    f"SELECT 1 -- \u2028 , {REFLECT}",
    f"SELECT 1 -- \\\n, {REFLECT}",
    "SELECT from_csv('a', 'a STRING', map('path', '{0}/secret.csv'))",
    "SELECT schema_of_csv('a', map('path', '{0}/secret.csv'))",
    f"SELECT * FROM db.t /*+ OPTIONS('scan.filter' = '{QUOTED} is null') */",
    "ALTER TABLE db.k ADD PARTITION (day = '../../../../out')",
    "INSERT INTO db.k VALUES (1, '../../../../out'), (2, '/tmp/out'), (3, '..')",
    "CREATE DATABASE d2 WITH DBPROPERTIES ('location' = '{0}/out')",
    "CREATE TABLE db.topic (id INT, PRIMARY KEY (id)) USING lakelog TBLPROPERTIES ('log-store.enabled' = 'true', "
    "'log-store.topic' = '../../../../out'); INSERT INTO db.topic VALUES (1)",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_runs_stays_inside(admin: Terminal, bucket_key: Path, text: str) -> None:
    before = sorted(bucket_key.iterdir())
    execution = done(admin, text.replace("{0}", str(bucket_key)))
    assert SECRET not in orjson.dumps([event.data for event in execution.events()]).decode()
    assert sorted(bucket_key.iterdir()) == before
    assert rows(admin, "SELECT id, name FROM db.t") == [[1, "a"]]


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
