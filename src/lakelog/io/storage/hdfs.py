"""HDFS through hdfs-native, without Java: create-if-absent by an exclusive rename."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from hdfs_native import Client, WriteOptions

from lakelog.errors import AlreadyExists, CommitUnknown, InvalidRequest, NoPermission, NotFound, Unavailable
from lakelog.io.clock import sleep
from lakelog.io.machine import PerProcess
from lakelog.io.names import new_attempt
from lakelog.io.secrets import secret_values, without_storage_secrets
from lakelog.io.storage.file_io import FileIO, FileStatus, check_whole, moved
from lakelog.io.storage.ranged_input import RangedInput
from lakelog.options.storage import HADOOP_PREFIX

_SETTINGS: Final = {
    # 15 by default, which is three minutes for a name node that is not there
    "dfs.client.failover.max.attempts": "5",
}
_PAUSES: Final = (0.005, 0.02, 0.1, 0.3, 0.6, 1.0, 3.0)
"""Seconds between looks for the last block of a file, which a data node reports within a heartbeat."""


@dataclass(frozen=True)
class HdfsFileIO(FileIO):
    """The files of HDFS clusters; paths are URIs like ``hdfs://namenode:8020/warehouse/…``, or with a name service.

    ``options`` are storage options with canonical keys: those that begin with ``hadoop.`` go to the client, on top of
    the files in HADOOP_CONF_DIR. Clients are made where they are used, once a process. ``root`` is the directory that
    is never made (``within``).
    """

    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    root: str = ""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> HdfsFileIO:
        """The storage with these options."""
        return cls(tuple(sorted(options.items())))

    def within(self, root: str) -> HdfsFileIO:
        return replace(self, root=root.rstrip("/"))

    def read(self, path: str) -> bytes:
        client, name = self._client_and_path(path)
        with self._errors(path):
            reader = _open(client, name)
            check_whole(path, len(reader))
            return bytes(reader.read())

    def open_input(self, path: str) -> pa.NativeFile:
        client, name = self._client_and_path(path)
        with self._errors(path):
            reader = _open(client, name)
            size = len(reader)
            start = max(0, size - RangedInput.TAIL_BYTES)
            end = bytes(reader.read_range(start, size - start))

        def fetch(start: int, length: int) -> bytes:
            with self._errors(path):
                return bytes(reader.read_range(start, length))

        return pa.PythonFile(RangedInput(fetch, size, end), mode="r")

    def write(self, path: str, data: bytes) -> None:
        client, name = self._client_and_path(path)
        with self._errors(path), self._temporary_file(client, path, data) as temporary:
            client.rename(temporary, name, overwrite=True)

    def create(self, path: str, data: bytes) -> bool:
        client, name = self._client_and_path(path)
        with self._errors(path):
            if _exists(client, name):
                return False
            with self._temporary_file(client, path, data) as temporary:
                return self._rename(client, temporary, name, data)

    def open_output(self, path: str) -> pa.NativeFile:
        client, name = self._client_and_path(path)
        with self._errors(path):
            sink = self._create(client, path, name, overwrite=True)
        return pa.PythonFile(_Output(self, path, sink), mode="w")

    def exists(self, path: str) -> bool:
        client, name = self._client_and_path(path)
        with self._errors(path):
            return _exists(client, name)

    def size(self, path: str) -> int:
        client, name = self._client_and_path(path)
        with self._errors(path):
            return int(client.get_file_info(name).length)

    def list(self, path: str) -> list[FileStatus]:
        client, name = self._client_and_path(path)
        with self._errors(path):
            try:
                entries = list(client.list_status(name))
            except FileNotFoundError:
                return []
        root = path.rstrip("/")
        out = [
            FileStatus(f"{root}/{s.path.rpartition('/')[2]}", int(s.length), int(s.modification_time), bool(s.isdir))
            for s in entries
            if s.path.rstrip("/") != name  # the listing of a file is the file
        ]
        return sorted(out, key=lambda s: s.path)

    def delete(self, path: str) -> None:
        client, name = self._client_and_path(path)
        with self._errors(path):
            client.delete(name, recursive=False)

    def delete_dir(self, path: str) -> None:
        client, name = self._client_and_path(path)
        with self._errors(path):
            client.delete(name, recursive=True)

    def makedirs(self, path: str) -> None:
        client, name = self._client_and_path(path)
        with self._errors(path):
            self._make_directory(client, path, name)

    def rename_dir(self, path: str, new_path: str) -> None:
        client, name = self._client_and_path(path)
        target = self._client_and_path(new_path)[1]
        with self._errors(path):
            if not _exists(client, name):
                raise FileNotFoundError(name)
            client.mkdirs(target.rpartition("/")[0], create_parent=True)
            try:
                client.rename(name, target, overwrite=False)
            except FileExistsError:
                raise AlreadyExists(f"'{new_path}' exists: choose another name") from None

    def _client_and_path(self, path: str) -> tuple[Client, str]:
        root, name = split_hdfs(path)
        with self._errors(path):
            return _client(root, self.options), name

    def _create(self, client: Client, path: str, name: str, overwrite: bool = False) -> Any:
        """A new file, ``name`` in the directory of ``path``; makes that when it is not there."""
        try:
            return client.create(name, WriteOptions(overwrite=overwrite, create_parent=not self.root))
        except FileNotFoundError:
            self._make_directory(client, path.rpartition("/")[0], name.rpartition("/")[0])
            return client.create(name, WriteOptions(overwrite=overwrite, create_parent=False))

    def _make_directory(self, client: Client, path: str, name: str) -> None:
        """Makes a directory and its parents.

        The name node cannot limit this to directories below the root. If another process removes the root at this
        moment, it is made again.
        """
        if f"{path}/".startswith(f"{self.root}/") and self.root and not _exists(client, split_hdfs(self.root)[1]):
            raise moved(self.root)
        client.mkdirs(name, create_parent=True)

    @contextlib.contextmanager
    def _temporary_file(self, client: Client, path: str, data: bytes) -> Iterator[str]:
        """A durable temporary file with these bytes in the directory of the target; deleted at the end."""
        directory, _, last = split_hdfs(path)[1].rpartition("/")
        temporary = f"{directory}/.{last}.{new_attempt()}.tmp"
        try:
            with self._create(client, path, temporary) as sink:
                sink.write(data)
                sink.hsync()
            yield temporary
        finally:
            with contextlib.suppress(OSError, RuntimeError):
                client.delete(temporary)

    def _rename(self, client: Client, temporary: str, name: str, data: bytes) -> bool:
        """Renames the temporary file to its final name; False if the name is taken."""
        try:
            client.rename(temporary, name, overwrite=False)
        except (FileExistsError, FileNotFoundError) as why:
            # a repeated request finds the work of the first: only then is our file gone and the name taken
            if not _exists(client, temporary) and _exists(client, name):
                return True
            if isinstance(why, FileExistsError):
                return False
            raise
        except (OSError, RuntimeError) as why:
            if self._was_renamed(client, temporary, name, data):
                return True
            raise Unavailable(f"'{name}' was not created: {self._text(why)}") from None
        return True

    def _was_renamed(self, client: Client, temporary: str, name: str, data: bytes) -> bool:
        """True if a rename without an answer took place. Deletes its source, so that it cannot happen later."""
        try:
            if client.delete(temporary):
                return False
            if _is_file_with(client, name, data):
                return True
            doubt = "its temporary file is missing"
        except (OSError, RuntimeError) as why:
            doubt = self._text(why)
        raise CommitUnknown(f"'{name}' may or may not have been created: {doubt}")

    @contextlib.contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """The one place where errors of the client become ours."""
        try:
            yield
        except FileNotFoundError:
            raise NotFound(f"file '{path}' does not exist") from None
        except PermissionError as why:
            raise self._no_permission(path, why) from None
        except (OSError, RuntimeError) as why:
            if "AccessControlException" in str(why):
                raise self._no_permission(path, why) from None
            raise Unavailable(f"'{path}' cannot be read or written: {self._text(why)}") from None

    def _no_permission(self, path: str, why: Exception) -> NoPermission:
        return NoPermission(
            f"no permission for '{path}': check owner and mode, HADOOP_USER_NAME or the Kerberos ticket "
            f"({self._text(why)})"
        )

    def _text(self, why: Exception) -> str:
        """The first line of an error, without the name node's stack and without secrets."""
        text = str(why).partition("\n")[0].partition("\\n")[0]
        return without_storage_secrets(text, self.options)


class _Output(io.RawIOBase):
    """A file that is on the data nodes' disks when ``close`` returns."""

    def __init__(self, target: HdfsFileIO, path: str, sink: Any) -> None:
        super().__init__()
        self._target, self._path, self._sink, self._written = target, path, sink, 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with self._target._errors(self._path):
            self._sink.write(bytes(data))
        length = memoryview(data).nbytes
        self._written += length
        return length

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if not self.closed:
            super().close()
            with self._target._errors(self._path):
                self._sink.hsync()
                self._sink.close()

    def __del__(self) -> None:
        """Does nothing: the name node closes the file of a dead writer when its lease expires."""


_CLIENTS: Final[PerProcess[tuple[object, ...], Client]] = PerProcess()


def split_hdfs(path: str) -> tuple[str, str]:
    """``hdfs://host:8020/a/b`` as (``hdfs://host:8020``, ``/a/b``). Raises InvalidRequest for any other text."""
    scheme, separator, rest = path.partition("://")
    host, _, name = rest.partition("/")
    if not separator or not host:
        raise InvalidRequest(f"'{path}' has no cluster: write 'hdfs://<name node or name service>/<directory>'")
    return f"{scheme}://{host}", "/" + name.strip("/")


def _client(root: str, options: tuple[tuple[str, str], ...]) -> Client:
    """The client of a cluster; one a process, because it keeps its connections."""

    def connect() -> Client:
        hadoop = {key: value for key, value in options if key.startswith(HADOOP_PREFIX)}
        settings = {key.removeprefix(HADOOP_PREFIX): value for key, value in secret_values(hadoop).items()}
        return Client(root, {**_SETTINGS, **settings})

    return _CLIENTS.get((root, options), connect)


def _exists(client: Client, name: str) -> bool:
    try:
        client.get_file_info(name)
    except FileNotFoundError:
        return False
    return True


def _open(client: Client, name: str) -> Any:
    """A reader of the whole file. Raises FileNotFoundError, RuntimeError if its end stays unknown.

    Where ``dfs.namenode.file.close.num-committed-allowed`` is not 0, a file may be closed before a data node reports
    its last block. Until then a reader ends before that block, without an error.
    """
    for pause in _PAUSES:
        reader = client.read(name)
        length = client.get_file_info(name).length
        if len(reader) >= length:
            return reader
        sleep(pause)
    raise RuntimeError(
        f"its readers end at {len(reader)} of {length} bytes, because no data node reports the last block"
    )


def _is_file_with(client: Client, name: str, data: bytes) -> bool:
    try:
        return bytes(_open(client, name).read()) == data
    except FileNotFoundError:
        return False
