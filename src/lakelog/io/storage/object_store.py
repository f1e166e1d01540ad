"""Object stores (Amazon S3 and compatible ones, Google, Azure) through obstore, with a real conditional put.

A directory is a common prefix of names. ``makedirs`` puts a hidden, empty object into it, so that it persists.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import obstore
import pyarrow as pa
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import from_url

from lakelog.errors import (
    CommitUnknown,
    InvalidRequest,
    LakelogError,
    NoPermission,
    NotFound,
    Unavailable,
    UnsupportedFeature,
)
from lakelog.io.clock import sleep
from lakelog.io.machine import PerProcess, machine_name
from lakelog.io.names import new_attempt
from lakelog.io.secrets import secret_values, without_storage_secrets
from lakelog.io.storage.file_io import FileIO, FileStatus, check_whole
from lakelog.io.storage.ranged_input import RangedInput
from lakelog.options.option import Options
from lakelog.options.storage import (
    S3_ACCESS_KEY,
    S3_ENDPOINT,
    S3_PATH_STYLE,
    S3_REGION,
    S3_SECRET_KEY,
    S3_SESSION_TOKEN,
    STORAGE_LOCK,
)

_MARKER: Final = ".lakelog-directory"
"""Name of the hidden object that marks a directory; listings omit it."""

_TIMEOUT: Final = timedelta(seconds=30)
_RETRY: Final[dict[str, Any]] = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_NO_RETRY: Final[dict[str, Any]] = {**_RETRY, "max_retries": 0}
"""Options of a conditional put without retries, because a retry would find its own object and fail."""
_CONFLICT_PAUSES_S: Final = (0.0, 0.01, 0.05, 0.2, 0.5, 1.0)
"""Seconds to wait after each conditional put that was rejected although there is no object."""

_open_store: Any = from_url
"""Untyped, because its overloads depend on the kind of store, which only the URI determines."""

_SKEWED: Final = "RequestTimeTooSkewed"
"""Code of S3's answer to a request whose time is wrong by a quarter of an hour or more."""
_PART_BYTES: Final = 8 << 20
_DELETE_AT_ONCE: Final = 1000
_PUTS: Final = 8
"""Objects that are put in parallel."""


@dataclass(frozen=True)
class ObjectStoreFileIO(FileIO):
    """The objects of all buckets accessible with these options; paths are URIs like ``s3://bucket/warehouse/…``.

    ``options`` are storage options with canonical keys. They are pickled with the value, but its repr hides them.
    Clients are created on use, once per process.
    """

    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ObjectStoreFileIO:
        """The storage with these options."""
        return cls(tuple(sorted(options.items())))

    def read(self, path: str) -> bytes:
        with self._errors(path):
            answer = obstore.get(*self._store_and_key(path))
            check_whole(path, int(answer.meta["size"]))
            return bytes(answer.bytes())

    def open_input(self, path: str) -> pa.NativeFile:
        store, key = self._store_and_key(path)

        def fetch(start: int, length: int) -> bytes:
            with self._errors(path):
                return bytes(obstore.get_range(store, key, start=start, length=length))

        with self._errors(path):
            end, size = _tail(store, key)
        return pa.PythonFile(RangedInput(fetch, size, end), mode="r")

    def write(self, path: str, data: bytes) -> None:
        with self._errors(path):
            obstore.put(*self._store_and_key(path), data)

    def write_all(self, files: Mapping[str, bytes]) -> None:
        """As ``FileIO.write_all``; the requests run in parallel."""
        with ThreadPoolExecutor(_PUTS, "lakelog-put") as threads:
            for _ in threads.map(self.write, files.keys(), files.values()):
                pass

    def create(self, path: str, data: bytes) -> bool:
        """As ``FileIO.create``. Raises UnsupportedFeature for a store that lacks or ignores a conditional put."""
        self._check_conditions(path)
        with self._errors(path, changes=True):
            return self._create(path, data)

    def open_output(self, path: str) -> pa.NativeFile:
        with self._errors(path):
            return pa.PythonFile(_Output(self, path), mode="w")

    def exists(self, path: str) -> bool:
        store, key = self._store_and_key(path)
        with self._errors(path):
            return _is_object(store, key) or _is_directory(store, key)

    def size(self, path: str) -> int:
        with self._errors(path):
            return int(obstore.head(*self._store_and_key(path))["size"])

    def list(self, path: str) -> list[FileStatus]:
        store, key = self._store_and_key(path)
        root = path.rstrip("/")
        with self._errors(path):
            listing = obstore.list_with_delimiter(store, key)
        out = [FileStatus(f"{root}/{p.rpartition('/')[2]}", 0, 0, True) for p in listing["common_prefixes"]]
        for one in listing["objects"]:
            name = one["path"].rpartition("/")[2]
            # other engines mark a directory by an object of its own name with a slash
            if name != _MARKER and one["path"] != key:
                out.append(FileStatus(f"{root}/{name}", one["size"], _milliseconds(one["last_modified"]), False))
        return sorted(out, key=lambda s: s.path)

    def delete(self, path: str) -> None:
        store, key = self._store_and_key(path)
        with self._errors(path), contextlib.suppress(FileNotFoundError):
            obstore.delete(store, key)

    def delete_dir(self, path: str) -> None:
        store, key = self._store_and_key(path)
        with self._errors(path):
            for chunk in obstore.list(store, key, chunk_size=_DELETE_AT_ONCE):
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(store, [one["path"] for one in chunk])

    def makedirs(self, path: str) -> None:
        self.write(f"{path.rstrip('/')}/{_MARKER}", b"")

    def _store_and_key(self, path: str, once: bool = False) -> tuple[Any, str]:
        root, key = split_uri(path)
        return _client(root, self.options, once), key

    def _create(self, path: str, data: bytes) -> bool:
        """A put that returns whether it created the object; retries a conflict that left no object."""
        store, key = self._store_and_key(path, once=True)
        for pause_s in _CONFLICT_PAUSES_S:
            try:
                obstore.put(store, key, data, mode="create", use_multipart=False)
                return True
            except (AlreadyExistsError, PreconditionError):
                # S3 also responds so to a put concurrent with a delete or another put; then there may be no object yet
                if _is_object(store, key):
                    return False
            sleep(pause_s)
        raise CommitUnknown(f"'{path}' was refused as existing, but does not exist: check again, then create it again")

    def _check_conditions(self, path: str) -> None:
        """Checks, once per process and bucket, that the store rejects the second of two conditional puts.

        A store that ignores the condition would silently overwrite another writer's commit.
        """
        _CHECKED.get((split_uri(path)[0], self.options), lambda: self._probe_conditions(path))

    def _probe_conditions(self, path: str) -> None:
        """Puts one hidden object twice beside ``path``. Raises UnsupportedFeature if the store accepts the second."""
        directory, _, name = path.rpartition("/")
        probe = f"{directory}/.{name}.{new_attempt()}.probe"
        try:
            with self._errors(path):
                refused = self._create(probe, b"") and not self._create(probe, b"")
        except CommitUnknown as why:
            raise Unavailable(
                f"'{path}' was not created; the check of the store's conditional put failed: {why}"
            ) from why
        finally:
            with contextlib.suppress(LakelogError):
                self.delete(probe)
        if not refused:
            raise _needs_lock(path, "overwrites an object in spite of If-None-Match")

    @contextlib.contextmanager
    def _errors(self, path: str, changes: bool = False) -> Iterator[None]:
        """Translates errors of the store; with ``changes`` a lost response is CommitUnknown."""
        try:
            with self._clock_errors(path):
                yield
        except FileNotFoundError as why:
            what = "the bucket of" if "NoSuchBucket" in str(why) else "file"
            raise NotFound(f"{what} '{path}' does not exist") from None
        except (PermissionDeniedError, UnauthenticatedError) as why:
            raise NoPermission(
                f"no permission for '{path}': check the storage options, the AWS_ variables and the policy of the "
                f"bucket ({self._text(why)})"
            ) from None
        except NotSupportedError as why:
            raise _needs_lock(path, f"has no conditional put ({self._text(why)})") from None
        except (BaseError, OSError) as why:
            text = f"'{path}' cannot be read or written: {self._text(why)}"
            if "NotImplemented" in str(why):
                raise _needs_lock(path, f"has no conditional put ({self._text(why)})") from None
            # the error names the failed step: a request that found no server has had no effect
            if changes and "kind: Connect" not in str(why) and "SlowDown" not in str(why):
                raise CommitUnknown(f"'{path}' may or may not have been created: {self._text(why)}") from None
            raise Unavailable(text) from None

    @contextlib.contextmanager
    def _clock_errors(self, path: str) -> Iterator[None]:
        """Raises Unavailable if the store refuses a request for its time."""
        try:
            yield
        except BaseError as why:
            if _SKEWED not in str(why):
                raise
            raise Unavailable(
                f"'{path}' cannot be read or written: the clock of this machine, {machine_name()}, differs from that "
                f"of the store by more than it accepts. Set it, and keep it right by NTP ({self._text(why)})"
            ) from None

    def _text(self, why: Exception) -> str:
        """The first line of an error, without secrets."""
        text = str(why).partition("\n")[0]
        return without_storage_secrets(text, self.options)


class _Output(io.RawIOBase):
    """A multipart upload into a store; the complete object appears after ``close``."""

    def __init__(self, target: ObjectStoreFileIO, path: str) -> None:
        super().__init__()
        self._target, self._path, self._written = target, path, 0
        store, key = target._store_and_key(path)
        self._sink = obstore.open_writer(store, key, buffer_size=_PART_BYTES, max_concurrency=4)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        with self._target._errors(self._path):
            self._sink.write(view)
        self._written += len(view)
        return len(view)

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if not self.closed:
            super().close()
            with self._target._errors(self._path):
                self._sink.close()

    def __del__(self) -> None:
        """Discards an output without ``close``, because its writer has failed."""


_CLIENTS: Final[PerProcess[tuple[object, ...], Any]] = PerProcess()
_CHECKED: Final[PerProcess[tuple[object, ...], None]] = PerProcess()


def split_uri(path: str) -> tuple[str, str]:
    """``s3://bucket/a/b`` as (``s3://bucket``, ``a/b``). Raises InvalidRequest for another URI."""
    scheme, separator, rest = path.partition("://")
    bucket, _, key = rest.partition("/")
    if not separator or not bucket:
        raise InvalidRequest(
            f"'{path}' is not a location in an object store: write '{scheme or 's3'}://<bucket>/<directory>'"
        )
    return f"{scheme}://{bucket}", key.strip("/")


def _client(root: str, options: tuple[tuple[str, str], ...], once: bool) -> Any:
    """The client of a bucket; one per process, because it keeps connections open."""
    return _CLIENTS.get((root, options, once), lambda: _new_client(root, Options(secret_values(dict(options))), once))


def _new_client(root: str, options: Options, once: bool) -> Any:
    retry = _NO_RETRY if once else _RETRY
    client_options: dict[str, Any] = {"timeout": _TIMEOUT, "connect_timeout": timedelta(seconds=5)}
    if not root.startswith(("s3://", "s3a://")):
        return _open_store(root, client_options=client_options, retry_config=retry)
    endpoint = options.get_typed(S3_ENDPOINT) or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint is not None and endpoint.startswith("http://"):
        client_options["allow_http"] = True
    settings = {
        "endpoint": endpoint,
        "access_key_id": options.get_typed(S3_ACCESS_KEY),
        "secret_access_key": options.get_typed(S3_SECRET_KEY),
        "session_token": options.get_typed(S3_SESSION_TOKEN),
        "region": options.get_typed(S3_REGION),
    }
    config: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    config["virtual_hosted_style_request"] = not options.need(S3_PATH_STYLE)
    bucket = "s3://" + root.partition("://")[2]
    return _open_store(bucket, config=config, client_options=client_options, retry_config=retry)


def _tail(store: Any, key: str) -> tuple[bytes, int]:
    """The end of an object and its size, in one request if the store supports it."""
    try:
        answer = obstore.get(store, key, options={"range": {"suffix": RangedInput.TAIL_BYTES}})
        return bytes(answer.bytes()), int(answer.meta["size"])
    except (NotSupportedError, BaseError) as why:
        # an empty object has no range, and Azure counts no range from the end
        size = int(obstore.head(store, key)["size"])
        if size == 0:
            return b"", 0
        if not isinstance(why, NotSupportedError):
            raise
        start = max(0, size - RangedInput.TAIL_BYTES)
        return bytes(obstore.get_range(store, key, start=start, end=size)), size


def _is_object(store: Any, key: str) -> bool:
    try:
        obstore.head(store, key)
    except FileNotFoundError:
        return False
    return True


def _is_directory(store: Any, key: str) -> bool:
    return next(iter(obstore.list(store, key, chunk_size=1)), None) is not None


def _milliseconds(when: datetime) -> int:
    return int(when.timestamp() * 1000)


def _needs_lock(path: str, fault: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"the store of '{path}' {fault}, so commits could be lost: set storage option '{STORAGE_LOCK.key}' to 'sql' "
        f"(or 'file', for writers on one machine)"
    )
