"""Programs read tables with a driver that knows nothing of lakelog: ADBC's for Flight SQL."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from flight_servers import PASSWORD, TOKEN, RunningServer, bearer, running_server
from lakelog.errors import InvalidRequest
from lakelog.lake import Lake
from lakelog.service.access.users import Users
from lakelog.service.serve.messages import message, packed
from lakelog.service.serve.settings import ServeLimits
from lakelog.sql.runtime.statement import Privilege

_HEADER = "adbc.flight.sql.authorization_header"


def test_a_query_returns_the_rows_with_their_types(server: RunningServer, lake: Lake) -> None:
    with server.adbc() as cursor:
        cursor.execute("SELECT id, name, CAST(id AS DECIMAL(10, 2)) AS price FROM db.t WHERE id > 1 ORDER BY id")
        rows = cursor.fetch_arrow_table()
    assert rows.schema.types == [pa.int64(), pa.string(), pa.decimal128(10, 2)]
    assert rows.to_pylist() == [
        {"id": 2, "name": "milk", "price": Decimal("2.00")},
        {"id": 3, "name": None, "price": Decimal("3.00")},
    ]


def test_a_query_sees_the_newest_snapshot(server: RunningServer, lake: Lake) -> None:
    with server.adbc() as cursor:
        for count in (3, 4):
            cursor.execute("SELECT count(*) FROM db.t")
            assert cursor.fetchone() == (count,)
            lake.table("db.t").write(pa.table({"id": [4], "name": ["rum"]}))


def test_a_large_result_arrives_in_batches(server: RunningServer, lake: Lake) -> None:
    lake.create_table("db.large", {"n": "bigint"}).write(pa.table({"n": range(300_000)}))
    with server.adbc() as cursor:
        cursor.execute("SELECT n FROM db.large")
        reader = cursor.fetch_record_batch()
        sizes = [batch.num_rows for batch in reader]
    assert sum(sizes) == 300_000
    assert max(sizes) <= 65_536


def test_show_and_describe_are_statements_too(server: RunningServer) -> None:
    with server.adbc() as cursor:
        cursor.execute("SHOW TABLES IN db")
        assert cursor.fetchall() == [("db", "t")]
        cursor.execute("DESCRIBE db.t")
        assert ("name", "string") in [row[:2] for row in cursor.fetchall()]
        cursor.execute("EXPLAIN SELECT * FROM db.t")
        assert "DuckDB" in cursor.fetchone()[0]


def test_the_driver_lists_catalogs_databases_tables_and_columns(server: RunningServer, lake: Lake) -> None:
    with server.adbc() as cursor:
        connection = cursor.connection
        objects = connection.adbc_get_objects(depth="all", table_name_filter="t%").read_all().to_pylist()
        assert connection.adbc_get_table_schema("t", db_schema_filter="db") == lake.table("db.t").schema
        assert connection.adbc_get_table_types() == ["TABLE"]
        assert connection.adbc_get_info()["vendor_name"] == "lakelog"
    (catalog,) = objects
    (database,) = [one for one in catalog["catalog_db_schemas"] if one["db_schema_name"] == "db"]
    (table,) = database["db_schema_tables"]
    assert (catalog["catalog_name"], table["table_name"]) == ("lakelog", "t")
    assert [column["column_name"] for column in table["table_columns"]] == ["id", "name"]


def test_primary_keys_are_listed(server: RunningServer) -> None:
    command = message("CommandGetPrimaryKeys", db_schema="db", table="t")
    with server.client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_command(packed(command)))
        rows = client.do_get(info.endpoints[0].ticket).read_all()
    assert rows.schema == info.schema
    assert rows.select(["column_name", "key_sequence"]).to_pylist() == [{"column_name": "id", "key_sequence": 1}]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT * FROM db.nothing", "NOT_FOUND"),
        ("SELECT nothing FROM db.t", "INVALID_ARGUMENT"),
        ("SELECT 1 / 0", "INVALID_ARGUMENT"),
        ("SELEC 1", "NOT_IMPLEMENTED"),
        ("SELECT java_method('java.lang.System', 'exit', 1)", "NOT_IMPLEMENTED"),
        ("DELETE FROM db.t", "UNAUTHORIZED"),
    ],
)
def test_an_error_has_its_code_and_no_traceback(server: RunningServer, text: str, code: str) -> None:
    with server.adbc() as cursor, pytest.raises(Exception, match=f"^{code}: ") as failed:
        cursor.execute(text)
        cursor.fetchall()
    assert "Traceback" not in str(failed.value) and ".py" not in str(failed.value)


def test_users_log_in_by_name_or_with_a_token(lake: Lake, tmp_path: Path) -> None:
    users = Users(tmp_path / "users")
    users.put("ann", Privilege.READ, PASSWORD)
    with running_server(tmp_path, users_file=users.path, token=TOKEN) as server:
        for options in ({"username": "ann", "password": PASSWORD}, {_HEADER: f"Bearer {TOKEN}"}):
            with server.adbc(**options) as cursor:
                cursor.execute("SELECT count(*) FROM db.t")
                assert cursor.fetchone() == (3,)
        wrong = server.adbc(username="ann", password="guess")
        with pytest.raises(Exception, match="Wrong user or password"), wrong as cursor:
            cursor.execute("SELECT 1")
        with server.client() as client, pytest.raises(flight.FlightUnauthenticatedError, match="log in"):
            list(client.list_actions(bearer("a wrong token")))
        audited = server.audited()
    assert '"user":"ann","role":"read"' in audited and '"user":"token","role":"admin"' in audited
    assert '"error":"WrongToken"' in audited


def test_a_removed_user_has_no_session_any_more(lake: Lake, tmp_path: Path) -> None:
    users = Users(tmp_path / "users")
    users.put("ann", Privilege.READ, PASSWORD)
    with running_server(tmp_path, users_file=users.path) as server, server.client() as client:
        token = client.authenticate_basic_token("ann", PASSWORD)
        options = flight.FlightCallOptions(headers=[token])
        assert list(client.list_actions(options))
        users.remove("ann")
        with pytest.raises(flight.FlightUnauthenticatedError):
            list(client.list_actions(options))


def test_another_address_needs_a_login_and_tls(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="users must log in"), running_server(tmp_path, host="0.0.0.0"):
        pass
    plain = running_server(tmp_path, host="0.0.0.0", token=TOKEN)
    with pytest.raises(InvalidRequest, match="--tls-certificate"), plain:
        pass


def test_a_port_has_one_server(server: RunningServer, tmp_path: Path) -> None:
    second = running_server(tmp_path, port=int(server.address.rpartition(":")[2]))
    with pytest.raises(InvalidRequest, match="choose another --port"), second:
        pass


def test_a_statement_that_takes_too_long_is_ended(lake: Lake, tmp_path: Path) -> None:
    numbers = pa.table({"n": range(20_000)})
    lake.create_table("db.numbers", {"n": "bigint"}).write(numbers)
    with running_server(tmp_path, limits=ServeLimits(statement_s=0.3)) as server, server.adbc() as cursor:
        with pytest.raises(Exception, match="ended after 0.3 s"):
            cursor.execute("SELECT sum(a.n * b.n % 7 * c.n) FROM db.numbers a, db.numbers b, db.numbers c")
            cursor.fetchall()
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_one_statement_more_than_may_run_is_refused(lake: Lake, tmp_path: Path) -> None:
    lake.create_table("db.large", {"n": "bigint"}).write(pa.table({"n": range(2_000_000)}))
    limits = ServeLimits(statements=1, wait_s=0.2)
    ticket = flight.Ticket(packed(message("CommandStatementQuery", query="SELECT n, n AS m FROM db.large")))
    with running_server(tmp_path, limits=limits) as server, server.client() as client:
        first = client.do_get(ticket)
        first.read_chunk()
        with pytest.raises(flight.FlightUnavailableError, match="1 statements run already"):
            client.do_get(ticket).read_chunk()
        first.cancel()
        with running_server(tmp_path) as other, other.client() as reader:
            assert reader.do_get(ticket).read_all().num_rows == 2_000_000
