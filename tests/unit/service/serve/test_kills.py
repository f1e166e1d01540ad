"""Server and client are killed (SIGKILL) while one writes to the other: each batch is in the table once."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

import lakelog

JOB = Path(__file__).parents[3] / "flight_writer_job.py"
ROWS = 20


class Processes:
    """A server and its client."""

    def __init__(self, warehouse: Path, epochs: int) -> None:
        self._warehouse, self._epochs = warehouse, epochs
        self.acknowledged: set[int] = set()
        self.server: subprocess.Popen[str] | None = None
        self._address = ""

    def start_server(self) -> None:
        if self.server is None:
            command = ["serve", "--warehouse", str(self._warehouse), "--port", "0", "--state", f"{self._warehouse}/_s"]
            self.server = subprocess.Popen(
                [sys.executable, "-m", "lakelog", *command], stderr=subprocess.PIPE, text=True
            )
            assert self.server.stderr is not None
            line = self.server.stderr.readline()
            self._address = f"grpc://127.0.0.1:{line.partition('localhost:')[2].split()[0]}"

    def start_client(self) -> subprocess.Popen[str]:
        arguments = [self._address, "db.t", str(self._epochs), str(ROWS)]
        return subprocess.Popen(
            [sys.executable, str(JOB), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def follow(self, client: subprocess.Popen[str], answers: int | None) -> None:
        """Reads the answers of a client, all or some."""
        assert client.stdout is not None
        for line in client.stdout:
            self.acknowledged.add(int(line))
            answers = None if answers is None else answers - 1
            if answers == 0:
                return

    def kill_server(self) -> None:
        if self.server is not None:
            self.server.kill()
            self.server.wait()
            assert self.server.stderr is not None
            self.server.stderr.close()
            self.server = None


@pytest.mark.parametrize(("kills", "has_log"), [(3, True), (20, True), (2, False)])
def test_batches_are_there_once_after_kills(tmp_path: Path, kills: int, has_log: bool) -> None:
    chance = random.Random(kills)
    epochs = kills * 15
    with lakelog.connect(warehouse=tmp_path) as lake:
        options = {"log-store.enabled": "true"} if has_log else {}
        table = lake.create_table("db.t", {"epoch": "bigint", "n": "bigint"}, options=options)
        processes = Processes(tmp_path, epochs)
        try:
            for kill in range(kills):
                processes.start_server()
                client = processes.start_client()
                processes.follow(client, chance.randint(1, 10))
                if kill % 2 == 0:
                    processes.kill_server()
                client.kill()
                processes.follow(client, None)
                client.communicate()
                assert processes.acknowledged <= set(table.to_arrow()["epoch"].to_pylist())
            processes.start_server()
            client = processes.start_client()
            processes.follow(client, None)
            client.communicate()
            assert client.returncode == 0
        finally:
            processes.kill_server()
        rows = table.to_arrow().group_by("epoch").aggregate([("n", "count"), ("n", "count_distinct")]).to_pylist()
    assert {row["epoch"] for row in rows} == set(range(epochs)) == processes.acknowledged | set(range(epochs))
    assert {(row["n_count"], row["n_count_distinct"]) for row in rows} == {(ROWS, ROWS)}


def test_the_usual_end_is_quick_and_no_failure(tmp_path: Path) -> None:
    with lakelog.connect(warehouse=tmp_path) as lake:
        lake.create_table("db.t", {"epoch": "bigint", "n": "bigint"})
        processes = Processes(tmp_path, epochs=3)
        try:
            processes.start_server()
            client = processes.start_client()
            processes.follow(client, None)
            client.communicate()
            assert processes.server is not None
            processes.server.terminate()
            assert processes.server.wait(timeout=120) == 0
        finally:
            processes.kill_server()
        assert lake.table("db.t").snapshots()[-1].total_record_count == 3 * ROWS
