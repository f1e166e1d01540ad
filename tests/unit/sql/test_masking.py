"""Secrets in statements are masked however they are written, and no text takes long."""

from __future__ import annotations

import time

import pytest

from lakelog.io.logs import without_secrets as without_secrets_in_logs
from lakelog.sql.syntax.masking import without_secrets
from lakelog.sql.syntax.source_text import point_at

SPELLINGS = (
    "'properties.sasl.password' = 'AAA'",
    "'properties.sasl.password' 'AAA'",
    "'properties.sasl.password'\n==\t\"AAA\"",
    "'properties.sasl.password' /* c */ = 'AAA'",
    "'properties.sasl.password' = /* c */ 'AAA'",
    "'properties.sasl.password' -- x\n = -- y\n'AAA'",
    "'properties.sasl.password' /* a /* b */ c */ = 'AAA'",
    "'properties.sasl.password' /* '/*' */ = 'AAA'",
    "'properties.sasl.pass\\word' = 'AAA'",
    "'password' = r'AAA'",
    "password-- c\n= 'AAA'",
    "`properties`.`sasl`.`password` = 'AAA'",
    "password='AAA'",
    "S3.Access-Key='AAA'",
    "don't forget 'password' = 'AAA'",
    "/* 'password' = 'AAA' */ select 1",
    "-- 'password' = 'AAA'",
    "create catalog c with ('catalog.uri' = 'postgresql://user:AAA@host/db')",
    "options ('url' = 'jdbc:x://user:AAA@host/db')",
    "'password' = 'A''AA",
    "\u0130 'password' = 'AAA'",
    "'token' 'password' = 'AAA'",
    "SET s3.secret-key = AAA AA/+=",
    "set `password`=AAA",
    "select 1; set\n fs.s3a.token  =  AAA",
    "'s3.secret-key' => 'AAA'",
    "map('s3.secret-key', 'AAA')",
    "map('a', 'b', 'password' : 'AAA')",
    "'password' = 'AAA' 'AAA'",
    "'password' = 'AAA' || /* c */ \"AAA\" || 'AAA'",
    "'password' = N'AAA'",
    "'password' = U&'AAA'",
    "password = $$AAA$$",
    "'password' = $tag$AA$AA$tag$",
    "password('AAA')",
    "'my.pwd' = 'AAA'",
    "'key.passphrase' = 'AAA'",
    "'fs.azure.sas.container' = 'AAA'",
    "'header.authorization' = 'AAA'",
    "options ('url' = 'jdbc:x://host/db?user=u&password=AAA&ssl=true')",
    "options ('url' = 'jdbc:sqlserver://host;password=AAA;x=y')",
)


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_secret_is_masked_in_every_spelling(text: str) -> None:
    shown = without_secrets(text)
    assert "AA" not in shown
    assert len(shown) == len(text), "a caret below the text stays where it is"


@pytest.mark.parametrize(
    "text",
    [
        "create table t (id int) tblproperties ('bucket' = '4', 'log-store.address' = 'broker:9092')",
        "set 'properties.acks' 1",
        "select 'a' = 'b', key, 'c' from keyboard where monkey = 'banana' -- 'x' = 'y'",
        "'properties.security.protocol' = 'SSL', 'primary-key' = 'id'",
    ],
)
def test_all_else_is_shown(text: str) -> None:
    assert without_secrets(text) == text


SIZE = 200_000
PIECES = (
    " ", "'", '"', "`", "\\", "\\ ", "(", ".", "=", "\n", "a", "k'", "''", "/*", "*/", "--\n", "://a", "://a@",
    "password", "password ", "password'", "password''", "password=", "password/*", "--password\n", "passw'", "auth=",
    "access", "properties.", "\\'", "\u0130", "passw(", "key'='", "set ", "set a=", "set password ",
)  # fmt: skip
SHAPES = {
    **{f"{piece!r} many times": piece * (SIZE // len(piece)) for piece in PIECES},
    "a key and spaces": "k" + " " * SIZE + "x",
    "the key of a secret and spaces": "password" + " " * SIZE + "x",
    "comments that close far away": "password/*" * (SIZE // 20) + "*/" * (SIZE // 4),
    "comments in comments": "/*" * (SIZE // 4) + "*/" * (SIZE // 4),
    "lines before spaces": "--password\n" * (SIZE // 22) + " " * (SIZE // 2),
    "a value that does not end": "password='" + "x'' " * (SIZE // 4),
    "options in options": "(" * 1000 + "'password'='x'," * (SIZE // 15),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "work",
    [without_secrets, without_secrets_in_logs, lambda text: point_at(text, len(text) // 2, "here")],
    ids=["statements", "logs", "errors"],
)
def test_no_text_takes_long(work, name: str) -> None:
    def seconds() -> float:
        start = time.thread_time()
        work(SHAPES[name])
        return time.thread_time() - start

    # a tenth of a second on a quiet machine, and any machine may be forty times as slow; quadratic work takes minutes
    assert any(seconds() < 4 for _ in range(3)), "processor seconds of this thread"
