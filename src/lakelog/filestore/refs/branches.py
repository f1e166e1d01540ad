"""The branches of a table: separate histories over shared data files (format sheet 12)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakelog.errors import AlreadyExists, CommitConflict, InvalidRequest, NotFound, UnsupportedFeature, did_you_mean
from lakelog.filestore.gc.reachability import ReachableFiles
from lakelog.filestore.gc.removal import Removal
from lakelog.filestore.metadata.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.metadata.schemas import Schemas
from lakelog.filestore.metadata.snapshots import Snapshots
from lakelog.filestore.refs.restored_state import files_added_only
from lakelog.filestore.refs.tags import Tags
from lakelog.io.storage.file_io import FileIO
from lakelog.options.names import sql_name_fault, visible
from lakelog.paimon.metadata.tag import snapshot_json_of
from lakelog.paimon.schema.schema import TableSchema

_SCHEMA: Final = re.compile(r"schema-(\d+)")


@dataclass(frozen=True)
class Branches:
    """The branches of one table, created from main."""

    references: ReachableFiles

    @property
    def _io(self) -> FileIO:
        return self.references.io

    @property
    def _main(self) -> TablePaths:
        return self.references.paths

    def list(self) -> Sequence[str]:
        """The names of all branches except main."""
        return [name for name in self.references.branches() if self._is_complete(name)]

    def schema(self, name: str) -> TableSchema:
        """The newest schema of a branch. Raises NotFound, which suggests the closest branch."""
        newest = next(Schemas(self._io, self._of(name)).newest_first(), None)
        if newest is None:
            raise self._no_branch(name)
        return newest

    def create(
        self, name: str, tag: str | None = None, snapshot_id: int | None = None, if_not_exists: bool = False
    ) -> None:
        """Creates a branch from a tag, from a snapshot, or (without both) an empty one with the newest schema.

        The branch's schemas are written last, the oldest one at the end. Without the oldest schema the branch does not
        exist, so a repeated call recovers from a crash. A server that commits to the table creates the branch itself,
        from a tag or empty. Raises AlreadyExists, NotFound, InvalidRequest for an invalid name, UnsupportedFeature.
        """
        _check_name(name)
        if tag is not None and snapshot_id is not None:
            raise InvalidRequest(
                f"branch '{name}' cannot start from both tag '{tag}' and snapshot {snapshot_id}: give one of them"
            )
        if self._is_complete(name):
            if if_not_exists:
                return
            raise AlreadyExists(f"branch '{name}' exists: choose another name, or delete it first")
        owner = self._io.snapshot_owner
        if owner is not None:
            if snapshot_id is not None:
                raise UnsupportedFeature(
                    f"the catalog server creates branches of table {self._main.table} from tags only: create a tag of "
                    f"snapshot {snapshot_id}, then branch '{name}' from that tag"
                )
            owner.create_branch(name, tag)
            return
        paths = self._of(name)
        self._io.delete_dir(paths.branch_root)
        schema_id = self.schema(MAIN_BRANCH).id
        if tag is not None:
            start = Tags(self.references).get(tag)
            data = self._io.read(self._main.tag(tag))
            self._io.write(paths.tag(tag), data)
            self._io.write(paths.snapshot(start.snapshot.id), snapshot_json_of(data))
            schema_id = start.snapshot.schema_id
        elif snapshot_id is not None:
            snapshots = Snapshots(self._io, self._main)
            snapshot = snapshots.get(snapshot_id)
            self._io.write(paths.snapshot(snapshot_id), snapshots.content(snapshot_id))
            schema_id = snapshot.schema_id
        # expiry deletes a root before it lists the others: if the root still exists, expiry will see the branch
        root = self._main.tag(tag) if tag is not None else self._main.snapshot(snapshot_id or 0)
        if (tag is not None or snapshot_id is not None) and not self._io.exists(root):
            self._io.delete_dir(paths.branch_root)
            raise NotFound(f"'{root}' was deleted while branch '{name}' was created from it: choose a newer one")
        for number in reversed(self.schema_ids(MAIN_BRANCH)):
            if number <= schema_id:
                self._io.write(paths.schema_file(number), self._io.read(self._main.schema_file(number)))

    def delete(self, name: str) -> None:
        """Deletes a branch and the files that only it referenced. Raises NotFound.

        If a server commits to the table, it deletes the branch, and data files stay until orphan cleaning.
        """
        if not self._io.exists(self._of(name).branch_root) or name == MAIN_BRANCH:
            raise self._no_branch(name)
        owner = self._io.snapshot_owner
        if owner is not None:
            owner.drop_branch(name)
            return
        branch = self.references.of_branch(name)
        roots = sorted(branch.branch_roots(), key=lambda root: -root.snapshot.id)
        candidates = {path for root in roots for path in branch.files_to_delete(root)}
        removal = Removal(self.references)
        removal.remove(
            roots,
            candidates,
            removal.all_roots,
            before=lambda: self._io.delete(branch.paths.schema_file(self.schema_ids(MAIN_BRANCH)[0])),
            after=lambda: self._io.delete_dir(branch.paths.branch_root),
        )

    def adopt_schemas(self, name: str) -> None:
        """Copies the schemas of a branch that main does not have yet, so that main can have its files.

        A repeated call recovers from a crash. Raises UnsupportedFeature if main and the branch were altered
        differently.
        """
        main, branch = (self.schemas_of(b) for b in (MAIN_BRANCH, name))
        for number in sorted(branch):
            if number in main and main[number].fields != branch[number].fields:
                raise UnsupportedFeature(
                    f"table {self._main.table} cannot be fast-forwarded to branch '{name}': both were altered, and "
                    f"schema {number} of the branch has other columns than that of main. INSERT OVERWRITE the rows of "
                    "the branch instead"
                )
        for number in sorted(set(branch) - set(main)):
            data = self._io.read(self._of(name).schema_file(number))
            if number > max(main) and not self._io.create(self._main.schema_file(number), data):
                raise CommitConflict(f"table {self._main.table} was altered while it was fast-forwarded: try again")

    def schemas_of(self, name: str) -> dict[int, TableSchema]:
        """The schemas of a branch by id."""
        return {schema.id: schema for schema in Schemas(self._io, self._of(name)).newest_first()}

    def unused_files(self, name: str) -> frozenset[str]:
        """The names of files that the snapshots of a branch have added, and that main has never had."""
        branch = self.references.of_branch(name)
        snapshots = [root.snapshot for root in branch.chain()[1:]]  # the first one is the state that it began with
        main = [root.snapshot for root in self.references.chain()]
        return files_added_only(branch.manifests, snapshots, self.references.manifests, main)

    def _is_complete(self, name: str) -> bool:
        """Returns whether a branch is complete, which its oldest schema, written last, indicates."""
        oldest = self.schema_ids(MAIN_BRANCH)[:1]
        return set(oldest) <= set(self.schema_ids(name)) and bool(oldest)

    def schema_ids(self, name: str) -> Sequence[int]:
        """The ids of a branch's schemas, ascending; empty if the branch does not exist."""
        matches = (_SCHEMA.fullmatch(s.name) for s in self._io.list(self._of(name).schemas))
        return sorted(int(match[1]) for match in matches if match)

    def _of(self, name: str) -> TablePaths:
        return replace(self._main, branch=name)

    def _no_branch(self, name: str) -> NotFound:
        there = self.list()
        hint = did_you_mean(name, there, f"; it has: {', '.join(there) or 'none'}")
        return NotFound(f"table {self._main.table} has no branch '{name}'{hint}")


def _check_name(name: str) -> None:
    fault = sql_name_fault(name.replace(".", "_"))
    if name == MAIN_BRANCH or name.isdigit():
        fault = f"it is a number or '{MAIN_BRANCH}'"
    if fault:
        raise InvalidRequest(f"'{visible(name)}' cannot be the name of a branch: {fault}")
