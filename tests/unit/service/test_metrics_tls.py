"""The endpoint for Prometheus on an address that others reach: only with TLS and a token."""

from __future__ import annotations

import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from lakelog.errors import InvalidRequest
from lakelog.service.metrics.api import METRICS

TOKEN = "0123456789abcdef0123"


def test_a_token_is_never_sent_in_the_clear(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="--tls-certificate"):
        METRICS.serve(host="0.0.0.0", token=TOKEN)
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    with METRICS.serve(host="0.0.0.0", token=TOKEN, tls=(certificate, key)) as endpoint:
        assert endpoint.url.startswith("https://")
        request = urllib.request.Request(
            f"https://localhost:{endpoint.port}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        trusted = ssl.create_default_context(cafile=str(certificate))
        with urllib.request.urlopen(request, context=trusted, timeout=120) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request.full_url, context=trusted, timeout=120)
    with pytest.raises(InvalidRequest, match="cannot be used"):
        METRICS.serve(host="0.0.0.0", token=TOKEN, tls=(key, key))
