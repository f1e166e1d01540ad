"""Commits to a table through the server of a REST catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from lakelog.catalog.rest_api import Answer, RestApi
from lakelog.errors import AlreadyExists, CommitConflict, InvalidRequest, NotFound, TableReplaced
from lakelog.io.storage.snapshot_owner import PartitionChange, SnapshotOwner

_MAIN = "main"


@dataclass(frozen=True)
class RestOwner(SnapshotOwner):
    """The server of a table, which it identifies by name and, if it has one, by id.

    A new table of the same name is a different table.
    """

    api: RestApi
    database: str
    table: str
    table_id: str | None

    def commit(self, branch: str, snapshot: bytes, changes: Sequence[PartitionChange]) -> bool:
        body = {
            "tableId": self.table_id,
            "snapshot": orjson.loads(snapshot),
            "statistics": [
                {
                    "spec": dict(change.spec),
                    "recordCount": change.rows,
                    "fileSizeInBytes": change.size,
                    "fileCount": change.files,
                    "lastFileCreationTime": change.newest_ms,
                    "totalBuckets": change.buckets,
                }
                for change in changes
            ],
        }
        answer = self._change(branch, "commit", body)
        if answer.status == 409:
            raise CommitConflict(f"the catalog server refused a commit to {self._name}: {answer.message}")
        if answer.status == 404:
            raise TableReplaced(
                f"table {self._name} was dropped, renamed or recreated on the catalog server since it was opened: "
                f"open it again ({answer.message})"
            )
        self._check(answer, "commits to")
        return answer.body.get("success") is True

    def create_branch(self, name: str, tag: str | None) -> None:
        answer = self._ask("POST", "branches", body={"branch": name, "fromTag": tag})
        if answer.status == 409:
            raise AlreadyExists(f"branch '{name}' exists: choose another name, or delete it first")
        self._check(answer, "makes a branch from")

    def drop_branch(self, name: str) -> None:
        self._check(self._ask("DELETE", "branches", name), "deletes a branch of")

    def _ask(self, method: str, *what: str, body: dict[str, object] | None = None, table: str | None = None) -> Answer:
        return self.api.change(method, "databases", self.database, "tables", table or self.table, *what, body=body)

    def _change(self, branch: str, what: str, body: dict[str, object]) -> Answer:
        name = self.table if branch == _MAIN else f"{self.table}$branch_{branch}"
        return self._ask("POST", what, body=body, table=name)

    def _check(self, answer: Answer, done: str) -> None:
        if answer.status == 404:
            raise NotFound(
                f"the catalog server did not find table {self._name} or what it {done}: the table was dropped, "
                f"renamed or recreated; open it again ({answer.message})"
            )
        if not answer.is_done:
            raise InvalidRequest(f"the catalog server refused what {done} {self._name}: {answer.message}")

    @property
    def _name(self) -> str:
        return f"{self.database}.{self.table}"
