"""Local files: create-if-absent by hard link, durable before it is visible."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from lakelog.errors import (
    AlreadyExists,
    CommitUnknown,
    Corrupt,
    InvalidRequest,
    NoPermission,
    NotFound,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.io.names import new_attempt
from lakelog.io.storage.file_io import DiskSpace, FileIO, FileStatus, check_whole, moved

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_WRITE_TRIES = 3
"""Maximum attempts to write a file in a directory that another process removes meanwhile."""
_DELETE_TRIES = 5
"""Maximum attempts to delete a directory to which another process still writes."""
_BUFFER_BYTES = 64 << 10
_REFUSED = (errno.ENOENT, errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Answers to a link that surely made nothing; any other may have been lost on the way."""


class LocalFileIO(FileIO):
    """Files of this machine (or of a mounted file system); paths may start with ``file:``."""

    _root = ""
    """The directory that is never made (``within``)."""
    _handle: int | None = None
    """The open directory ``_root``, whatever its name is now (``hold``)."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LocalFileIO:
        """Local files; the options are for other storages."""
        return cls()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalFileIO) and other._root == self._root

    def __hash__(self) -> int:
        return hash((LocalFileIO, self._root))

    def within(self, root: str) -> LocalFileIO:
        inside = LocalFileIO()
        inside._root = self.absolute(root)
        return inside

    @contextlib.contextmanager
    def hold(self, root: str) -> Iterator[LocalFileIO]:
        opened = self.within(root)
        with _os_errors(root):
            handle = os.open(opened._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            opened._handle = handle
            yield opened
        finally:
            os.close(handle)

    def absolute(self, path: str) -> str:
        return os.path.abspath(_local(path))

    def real(self, path: str, below: str = "") -> str:
        local_path = _local(path)
        if not below or _has_links(local_path, below):
            return os.path.realpath(local_path)
        return local_path

    def read(self, path: str) -> bytes:
        with _os_errors(path), open(self._name(path), "rb", opener=self._open) as file:
            check_whole(path, os.fstat(file.fileno()).st_size)
            return file.read()

    def open_input(self, path: str) -> pa.NativeFile:
        with _os_errors(path):
            os.close(_open_file(_local(path), os.O_RDONLY))
            return pa.OSFile(_local(path), "rb")

    def write(self, path: str, data: bytes) -> None:
        for left in reversed(range(_WRITE_TRIES)):
            try:
                with self._making(path), _temporary_file(_local(path), data) as temporary:
                    os.replace(temporary, _local(path))
                    _sync_directory(os.path.dirname(_local(path)))
                return
            except NotFound:  # another process has removed the directory meanwhile
                if not left:
                    raise

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """As ``FileIO.write_all``; each directory is synchronised once."""
        for path, data in files.items():
            with self._making(path), _temporary_file(_local(path), data) as temporary:
                os.replace(temporary, _local(path))
        for directory in {os.path.dirname(_local(path)) for path in files}:
            with _os_errors(directory):
                _sync_directory(directory)

    def write_hint(self, path: str, data: bytes) -> None:
        with self._making(path), _temporary_file(_local(path), data, is_durable=False) as temporary:
            os.replace(temporary, _local(path))

    def create(self, path: str, data: bytes) -> bool:
        target = _local(path)
        if os.path.exists(target):
            return False
        with self._making(path), _temporary_file(target, data) as temporary:
            if not _link(temporary, target):
                return False
            try:
                _sync_directory(os.path.dirname(target))
            except OSError as why:
                raise CommitUnknown(f"'{path}' was created, but may not survive a power loss: {why}") from why
        return True

    def open_output(self, path: str) -> pa.NativeFile:
        target = _local(path)
        with self._making(path):
            return _buffered(_DurableFile(target))

    def exists(self, path: str) -> bool:
        return os.path.exists(_local(path))

    def size(self, path: str) -> int:
        with _os_errors(path):
            return os.path.getsize(_local(path))

    def list(self, path: str) -> list[FileStatus]:
        out = []
        with _os_errors(path), _ignore_missing(), os.scandir(_local(path)) as entries:
            for entry in entries:
                if not _is_text(entry.name):  # nothing in a table has such a name
                    continue
                # a file may go between the listing and this look at it; a link may lead nowhere, or to itself
                with _ignore_missing():
                    status = entry.stat()
                    out.append(
                        FileStatus(
                            f"{_local(path).rstrip('/')}/{entry.name}",
                            status.st_size,
                            status.st_mtime_ns // 1_000_000,
                            entry.is_dir(),
                            entry.is_symlink(),
                        )
                    )
        return sorted(out, key=lambda s: s.path)

    def delete(self, path: str) -> None:
        with _os_errors(path), contextlib.suppress(FileNotFoundError):
            os.unlink(self._name(path), dir_fd=self._handle)

    def delete_dir(self, path: str) -> None:
        local_path = _local(path)
        with _os_errors(path):
            if os.path.islink(local_path):
                os.unlink(local_path)
                return
            for left in reversed(range(_DELETE_TRIES)):
                try:
                    shutil.rmtree(local_path)
                except OSError as why:
                    # somebody else deletes there as well, or still writes
                    if why.errno not in (errno.ENOENT, errno.ENOTEMPTY) or (not left and os.path.exists(local_path)):
                        raise
                if not os.path.exists(local_path):
                    return

    def space(self, path: str) -> DiskSpace | None:
        local_path = os.path.abspath(_local(path))
        while not os.path.isdir(local_path):
            local_path = os.path.dirname(local_path)
        with _os_errors(path):
            usage = shutil.disk_usage(local_path)
        return DiskSpace(usage.free, usage.used + usage.free)  # without what only root may use

    def delete_empty_dir(self, path: str) -> None:
        # refused by the system when somebody has put a file there meanwhile
        with contextlib.suppress(OSError):
            os.rmdir(_local(path))

    def makedirs(self, path: str) -> None:
        with self._making(f"{path}/"):
            pass

    def rename_dir(self, path: str, new_path: str) -> None:
        source, target = _local(path), _local(new_path)
        with _os_errors(path):
            self._make_directory(os.path.dirname(target))
            try:
                os.rename(source, target)  # replaces an empty directory only
            except OSError as why:
                if why.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise AlreadyExists(f"'{new_path}' exists: choose another name") from None
                raise
            for directory in {os.path.dirname(source), os.path.dirname(target)}:
                _sync_directory(directory)

    def _name(self, path: str) -> str:
        """The name of a file for calls of the system, below the held directory if there is one."""
        if self._handle is None:
            return _local(path)
        return os.path.relpath(self.absolute(path), self._root)

    def _open(self, path: str, flags: int) -> int:
        return _open_file(path, flags, self._handle)

    @contextlib.contextmanager
    def _making(self, path: str) -> Iterator[None]:
        """Context that creates a file, after its directory. Raises as ``_os_errors``."""
        with _os_errors(path):
            try:
                self._make_directory(os.path.dirname(_local(path)))
                yield
            except FileNotFoundError:
                if self._root and not os.path.isdir(self._root):
                    raise moved(self._root) from None
                raise

    def _make_directory(self, directory: str) -> None:
        """Creates a directory and its missing parents below the root."""
        if os.path.isdir(directory):
            return
        if directory == self._root:
            raise FileNotFoundError(directory)
        if self._root and directory.startswith(f"{self._root}/"):
            self._make_directory(os.path.dirname(directory))
            with contextlib.suppress(FileExistsError):
                os.mkdir(directory)
        else:
            os.makedirs(directory, exist_ok=True)


class ScratchFileIO(LocalFileIO):
    """Files of this machine that need not outlive a power loss."""

    def open_output(self, path: str) -> pa.NativeFile:
        with self._making(path):
            return _buffered(_File(_local(path)))


class _File(io.FileIO):
    """A file that is written from its beginning; errors are ours."""

    def __init__(self, path: str) -> None:
        self._path = path
        super().__init__(path, "w")

    def write(self, data: Any) -> int:
        with _os_errors(self._path):
            return super().write(data)


class _DurableFile(_File):
    """A file that is on the disk, not only in the page cache, when ``close`` returns."""

    def close(self) -> None:
        if not self.closed:
            with _os_errors(self._path):
                os.fsync(self.fileno())
                super().close()
                _sync_directory(os.path.dirname(self._path))


def _buffered(file: _File) -> pa.NativeFile:
    """A file for Arrow, whose writers write many parts of few bytes."""
    return pa.BufferedOutputStream(pa.PythonFile(file, mode="w"), _BUFFER_BYTES)


def _local(path: str) -> str:
    if not path.startswith("file:"):
        return path
    return "/" + path.removeprefix("file:").lstrip("/")


def _has_links(path: str, below: str) -> bool:
    """True if ``below``, or a name after it in a path without ``..``, is a symbolic link."""
    at = len(below)
    while True:
        try:
            if stat.S_ISLNK(os.lstat(path[:at]).st_mode):
                return True
        except OSError:  # nothing is there, so no name after it is a link
            return False
        if at == len(path):
            return False
        at = path.find("/", at + 1)
        at = len(path) if at < 0 else at


def _open_file(path: str, flags: int, directory: int | None = None) -> int:
    """Opens a regular file. Raises Corrupt for a pipe or a device, because a read of it may never end."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        os.close(handle)
        raise Corrupt(f"'{path}' is a pipe or a device, not a file: remove it")
    return handle


def _is_text(name: str) -> bool:
    """True if a name is UTF-8; Python returns other bytes as lone surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in name)


@contextlib.contextmanager
def _ignore_missing() -> Iterator[None]:
    """Suppresses the errors of a file that does not exist."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as why:
        if why.errno != errno.ELOOP:
            raise


@contextlib.contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """The one place where errors of the operating system become ours."""
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"file '{path}' does not exist") from None
    except PermissionError as why:
        raise NoPermission(f"no permission for '{path}': {why.strerror}; check owner and mode") from why
    except NotADirectoryError:
        raise InvalidRequest(f"'{path}' cannot be used: a part of this path is a file, name a directory") from None
    except OSError as why:
        raise Unavailable(f"'{path}' cannot be read or written: {why.strerror or why}") from why


@contextlib.contextmanager
def _temporary_file(target: str, data: bytes, is_durable: bool = True) -> Iterator[str]:
    """A temporary file with these bytes in the directory of the target, by default durable; deleted at the end."""
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".{name}.{new_attempt()}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _link(temporary: str, target: str) -> bool:
    """Links the temporary file to its final name; False if the name is taken."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        # over NFS a repeated request answers "exists" for a link that it made itself
        return os.stat(temporary).st_nlink == 2
    except OSError as why:
        if why.errno in _NO_LINKS:
            raise UnsupportedFeature(
                f"the file system of '{target}' has no hard links, which atomic commits need: choose another directory"
            ) from why
        if why.errno in _REFUSED:
            raise
        raise CommitUnknown(f"'{target}' may or may not have been created: {why.strerror}") from why
    return True


def _sync_directory(directory: str) -> None:
    handle = os.open(directory or ".", os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
