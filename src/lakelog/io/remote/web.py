"""HTTP requests to servers that a user names: verified certificates, no redirects, responses of a bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import urllib3

from lakelog.errors import Corrupt, InvalidOption
from lakelog.io.machine import PerProcess

_TIMEOUT: Final = urllib3.Timeout(connect=10.0, read=60.0)
_POOLS: Final[PerProcess[str, urllib3.PoolManager]] = PerProcess()


def check_url(key: str, url: str, instead: str) -> None:
    """Checks that the option ``key`` is the address of a server; ``instead`` says where credentials belong.

    Raises InvalidOption, without the value, because it may be a secret.
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.query or parts.fragment:
        raise InvalidOption(f"option '{key}' is not a server address: write 'https://host:port'")
    if "@" in parts.netloc:
        raise InvalidOption(f"option '{key}' has a user or a password: {instead}")


def exchange(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None, most_bytes: int
) -> tuple[int, bytes]:
    """Sends one request, once, and returns the status and the body of the response.

    ``SSL_CERT_FILE`` adds trusted certificates. A redirect is a response as any other, so only the named server gets
    the credentials. Raises urllib3's ``HTTPError``, and Corrupt for a body of more than ``most_bytes``.
    """
    answer = _POOLS.get("", lambda: urllib3.PoolManager(maxsize=8, timeout=_TIMEOUT)).request(
        method, url, body=body, headers=headers, preload_content=False, retries=False, redirect=False
    )
    data = answer.read(most_bytes + 1, decode_content=True)
    if len(data) > most_bytes:
        answer.close()
        raise Corrupt(f"the server at {url.partition('?')[0]} sent more than {most_bytes} bytes")
    answer.release_conn()
    return answer.status, data
