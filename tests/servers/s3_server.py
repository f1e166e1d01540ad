"""An S3-compatible store: Versity's gateway, built once by ``go install``; moto where Go is missing or cannot build it.

``LAKELOG_TEST_S3`` (``versitygw`` or ``moto``) insists on one of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakelog.io.names import new_attempt
from lakelog.service.servers.jars import jar_cache
from lakelog.service.servers.server_process import ServerProcess, free_port

_GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"


class S3Server(ServerProcess):
    """Buckets in a directory (gateway), or in memory (moto)."""

    NAME = "S3 server"

    access_key, secret_key, region = "lake-user", "lake-secret", "us-east-1"

    def __init__(self, directory: str | Path, address: str = "127.0.0.1") -> None:
        super().__init__(directory)
        wanted = os.environ.get("LAKELOG_TEST_S3")
        self.port, self._address = free_port(), address
        self.endpoint = f"http://{address}:{self.port}"
        self._binary = None if wanted == "moto" else _gateway(must=wanted is not None)
        for folder in ("data", "meta"):
            (self.directory / folder).mkdir(exist_ok=True)

    @property
    def options(self) -> dict[str, str]:
        """The storage options that reach this store."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key": self.access_key,
            "s3.secret-key": self.secret_key,
            "s3.region": self.region,
        }

    @property
    def variables(self) -> dict[str, str]:
        """The same as environment variables."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": self.region,
        }

    def new_bucket(self, name: str | None = None) -> str:
        """Makes a bucket and returns its name."""
        name = name or f"b-{new_attempt()}"
        if self._binary is not None:
            (self.directory / "data" / name).mkdir(exist_ok=True)  # a folder is a bucket
        else:
            urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{name}", method="PUT"), timeout=5).close()
        return name

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}

    def command(self) -> Sequence[str]:
        if self._binary is None:
            return [str(Path(sys.executable).with_name("moto_server")), "-H", self._address, "-p", str(self.port)]
        # without --sidecar the metadata lives in extended attributes, which not every file system has
        place = ["--port", f"{self._address}:{self.port}", "--region", self.region, "--quiet"]
        return [str(self._binary), *place, "posix", "--sidecar", str(self.directory / "meta"), "data"]

    def is_ready(self) -> bool:
        try:
            urllib.request.urlopen(self.endpoint, timeout=2).close()
        except urllib.error.HTTPError as answer:
            answer.close()
            return answer.code != 503
        except OSError:
            return False
        return True


def _gateway(must: bool) -> Path | None:
    """The gateway's binary; the first call builds it (two minutes). None where that cannot be, unless it must."""
    binary = jar_cache().parent / "bin" / "versitygw"
    if binary.exists():
        return binary
    go = shutil.which("go")
    if go is None:
        why = "there is no go"
    else:
        settings = {"GOBIN": str(binary.parent), "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
        command = [go, "install", "-trimpath", "-ldflags=-s -w", _GATEWAY]
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return binary
        why = done.stderr[-2000:]
    if must:
        raise RuntimeError(f"{_GATEWAY} cannot be built: {why}")
    return None


if __name__ == "__main__":  # before the tests, whose time is limited: building takes minutes the first time
    _gateway(must=False)
