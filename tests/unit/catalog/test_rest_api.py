"""Requests to a REST catalog's server: what is tried again, what an answer means, and who sees the token."""

from __future__ import annotations

import datetime as dt
import ipaddress
import pickle
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakelog.catalog import rest_api
from lakelog.catalog.rest_api import RestApi
from lakelog.errors import (
    CommitUnknown,
    Corrupt,
    InvalidOption,
    InvalidRequest,
    LakelogError,
    NotFound,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.io import clock
from lakelog.io.machine import PerProcess
from lakelog.io.remote import web
from lakelog.service.servers.server_process import free_port
from servers.scripted_http import ScriptedHttp

TOKEN = "hush-hush-token"

Serve = Callable[[dict[str, Any]], ScriptedHttp]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[ScriptedHttp] = []

    def start(script: dict[str, Any]) -> ScriptedHttp:
        servers.append(ScriptedHttp(script).__enter__())
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that would have been made."""
    made: list[float] = []
    monkeypatch.setattr(clock, "sleep", made.append)
    return made


def test_the_configuration_of_the_server_gives_prefix_and_headers(serve: Serve) -> None:
    config = {
        "defaults": {"prefix": "a:b/c", "header.x-lake": "one", "warehouse": "other"},
        "overrides": {"header.x-lake": "two", "nothing": None},
    }
    server = serve({"GET /v1/config?warehouse=my+lake": (200, config), "GET /v1/a%3Ab/c/x%2Fy%24z": (200, {"a": 1})})
    api = RestApi.of(server.url + "/", TOKEN).of_warehouse("my lake")
    assert api.get("x/y$z").body == {"a": 1}
    assert [(a.path, a.headers["authorization"], a.headers.get("x-lake")) for a in server.asked] == [
        ("/v1/config?warehouse=my+lake", f"Bearer {TOKEN}", None),
        ("/v1/a%3Ab/c/x%2Fy%24z", f"Bearer {TOKEN}", "two"),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"prefix": "../../admin"},
        {"prefix": "a/./b"},
        {"header.Authorization": "Bearer of-another"},
        {"header.host": "elsewhere"},
        {"header.x": "a\r\nb: c"},
        {"header.x y": "a"},
    ],
)
def test_a_configuration_that_leads_astray_is_refused(serve: Serve, given: dict[str, str]) -> None:
    server = serve({"GET /v1/config?warehouse=lake": (200, {"defaults": given})})
    with pytest.raises(Corrupt, match="invalid prefix or header"):
        RestApi.of(server.url, TOKEN).of_warehouse("lake")


def test_an_unknown_warehouse_of_the_server_is_reported(serve: Serve) -> None:
    with pytest.raises(NotFound, match="has no warehouse 'lake'"):
        RestApi.of(serve({}).url, "").of_warehouse("lake")


def test_a_question_is_asked_again_and_a_change_is_not(serve: Serve, pauses: list[float]) -> None:
    busy = (503, {"message": "busy", "code": 503})
    server = serve({"GET /v1/a": [busy, (0, b""), busy, (200, {"x": 1})], "POST /v1/a": [busy, (200, {})]})
    api = RestApi.of(server.url, TOKEN)
    assert api.get("a").body == {"x": 1}
    assert len(server.asked) == 4 and len(pauses) == 3
    with pytest.raises(CommitUnknown, match=r"outcome unknown: .* POST a: it answers 503: busy"):
        api.change("POST", "a", body={"n": 1})
    assert [a.body for a in server.asked if a.method == "POST"] == [{"n": 1}]


def test_who_does_not_answer_is_unavailable_in_the_end(serve: Serve) -> None:
    server = serve({"GET /v1/a": (502, b"<html>bad gateway</html>")})
    with pytest.raises(Unavailable, match="it answers 502") as raised:
        RestApi.of(server.url, TOKEN).get("a")
    assert raised.value.retriable and len(server.asked) == 4


def test_a_change_that_was_not_heard_is_unavailable_and_one_without_an_answer_unknown(serve: Serve) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        RestApi.of(f"http://127.0.0.1:{free_port()}", TOKEN).change("POST", "a")
    server = serve({"POST /v1/a": (0, b""), "DELETE /v1/a": (500, {"message": "broken"})})
    for method in ("POST", "DELETE"):
        with pytest.raises(CommitUnknown, match=f"{method} a"):
            RestApi.of(server.url, TOKEN).change(method, "a")
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (401, InvalidOption, r"\(401\): correct 'catalog.token'"),
        (403, InvalidRequest, r"\(403\): said so"),
        (501, UnsupportedFeature, r"\(501\): said so"),
        (405, InvalidRequest, r"\(405\): said so"),
        (429, Unavailable, "it answers 429"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refusal_says_what_to_do(serve: Serve, method: str, status: int, error: type[Exception], text: str) -> None:
    server = serve({f"{method} /v1/a": (status, {"message": "said so", "code": status})})
    api = RestApi.of(server.url, TOKEN)
    with pytest.raises(error, match=text):
        api.get("a") if method == "GET" else api.change("POST", "a")


def test_what_the_caller_judges_is_answered(serve: Serve) -> None:
    refused = {"message": "no such\ncolumn", "resourceType": "column", "code": 404}
    api = RestApi.of(serve({"POST /v1/a": [(404, refused), (409, b"oh"), (400, b"")]}).url, TOKEN)
    first, second, third = (api.change("POST", "a") for _ in range(3))
    assert (first.status, first.message, first.is_done) == (404, "no such column", False)
    assert (second.status, second.message) == (409, "oh")
    assert (third.status, third.message) == (400, "status 400")


def test_the_token_is_sent_to_no_other_host(serve: Serve) -> None:
    other = serve({"GET /v1/a": (200, {})})
    server = serve(
        {"GET /v1/a": (302, f"{other.url}/v1/a".encode()), "POST /v1/a": (307, f"{other.url}/v1/a".encode())}
    )
    api = RestApi.of(server.url, TOKEN)
    for ask in (lambda: api.get("a"), lambda: api.change("POST", "a")):
        with pytest.raises(InvalidRequest, match="refuses the request"):
            ask()
    assert other.asked == []


def test_nothing_that_is_printed_has_the_token(serve: Serve) -> None:
    echo = {"message": f"who is Bearer {TOKEN}?"}
    script = {f"GET /v1/{status}": (status, echo) for status in (400, 401, 403, 500, 503)}
    script |= {f"POST /v1/{status}": (status, echo) for status in (400, 401, 403, 500, 503)}
    server = serve({**script, "GET /v1/html": (418, f"<p>{TOKEN}</p>".encode())})
    api = pickle.loads(pickle.dumps(RestApi.of(server.url, TOKEN)))
    shown = [repr(api), str(api)]
    for status in ("400", "401", "403", "500", "503", "html"):
        for ask in (api.get, lambda path: api.change("POST", path)):
            try:
                shown.append(ask(status).message)
            except LakelogError as failed:
                shown += [repr(failed), repr(failed.__cause__), repr(failed.__context__)]
    assert {a.headers["authorization"] for a in server.asked} == {f"Bearer {TOKEN}"}
    assert len(shown) > 10 and not [text for text in shown if TOKEN in text]


def test_lists_come_in_pages(serve: Serve) -> None:
    script = {
        "GET /v1/tables": (200, {"tables": ["a", "b"], "nextPageToken": "b&c"}),
        "GET /v1/tables?pageToken=b%26c": (200, {"tables": ["c"]}),
        "GET /v1/none": (200, {"tables": None}),
        "GET /v1/round": (200, {"tables": ["a"], "nextPageToken": "x"}),
        "GET /v1/round?pageToken=x": (200, {"tables": ["b"], "nextPageToken": "x"}),
    }
    api = RestApi.of(serve(script).url, TOKEN)
    assert (api.names("tables", "tables"), api.names("tables", "none")) == (["a", "b", "c"], [])
    assert api.names("tables", "nowhere") is None
    with pytest.raises(Corrupt, match="same page"):
        api.names("tables", "round")


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"\xff"])
def test_an_answer_that_is_no_object_is_corrupt(serve: Serve, body: bytes) -> None:
    with pytest.raises(Corrupt, match="JSON object"):
        RestApi.of(serve({"GET /v1/a": (200, body)}).url, TOKEN).get("a")


def test_an_answer_without_end_is_not_read(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_api, "_MOST_BYTES", 1000)
    with pytest.raises(Corrupt, match="more than 1000 bytes"):
        RestApi.of(serve({"GET /v1/a": (200, {"a": "x" * 1000})}).url, TOKEN).get("a")


@pytest.mark.parametrize("url", ["", "host:80", "ftp://host", "https://", "http://h:x", "https://h/?a=b", "http://h:0"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption, match=r"'catalog.uri' is not a server address"):
        RestApi.of(url, TOKEN)


def test_secrets_in_the_wrong_place_are_refused_without_being_shown() -> None:
    for url, token in (("https://me:hush@host", ""), ("https://host", "hush\nhush"), ("https://host", "hush é")):
        with pytest.raises(InvalidOption) as raised:
            RestApi.of(url, token)
        assert "hush" not in str(raised.value)


def test_a_server_with_a_certificate_of_its_own_gets_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with ScriptedHttp({"POST /v1/a": (200, {"x": 1})}, context) as server:
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            RestApi.of(server.url, TOKEN).change("POST", "a")
        assert server.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        monkeypatch.setattr(web, "_POOLS", PerProcess())
        assert RestApi.of(server.url, TOKEN).change("POST", "a").body == {"x": 1}


def certificate(directory: Path) -> Path:
    """A key with a certificate for 127.0.0.1 that it has signed itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "lake")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = directory / "server.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path
