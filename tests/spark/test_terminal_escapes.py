"""Ways around the Terminal's guard: other spellings, parameters, procedures and names that lead out. None gets through.

``test_terminal_attacks`` has one statement for each thing that is refused; here are the ways to say them differently.
"""

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
    bucket_key = tmp_path_factory.mktemp("escapes")
    for name in ("secret.csv", "secret.txt"):
        (bucket_key / name).write_text(f"{SECRET}\n")
    return bucket_key


@pytest.fixture(scope="module")
def admin(bucket_key: Path) -> Iterator[Terminal]:
    config = TerminalConfig(str(bucket_key / "warehouse"), role=Privilege.ADMIN, storage_options={})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAKELOG_TEST_SECRET", SECRET)
        with Terminal(config) as terminal:
            done(
                terminal,
                "CREATE DATABASE db; CREATE TABLE db.t (id INT, name STRING, PRIMARY KEY (id)) USING lakelog;"
                "CREATE TABLE db.k (id INT, day STRING, PRIMARY KEY (id, day)) USING lakelog PARTITIONED BY (day)",
            )
            done(terminal, "INSERT INTO db.t VALUES (1, 'a')")
            yield terminal


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
CODE = (
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


@pytest.mark.parametrize("text", [*SPELLINGS, *CODE, *NAMES])
def test_no_other_way_to_say_it_gets_through(admin: Terminal, bucket_key: Path, text: str) -> None:
    before, pid = sorted(bucket_key.iterdir()), admin.state().pid
    execution = run(admin, text.replace("{0}", str(bucket_key)))
    assert execution.state == "failed", execution.rows()
    error = execution.snapshot().error
    assert error is not None and error.message
    assert error.kind not in ("InternalError", "ProcessEnded", "AttributeError", "TypeError", "KeyError"), error
    assert SECRET not in orjson.dumps([event.data for event in execution.events()]).decode()
    assert sorted(bucket_key.iterdir()) == before
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
