"""A call while it runs: its slot among those that run at a time, its line in the audit log, and its stream."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from lakelog.errors import NotAllowed, Unavailable
from lakelog.io.clock import monotonic_s, now_ms
from lakelog.service.access.identity import Identity
from lakelog.service.serve.failures import in_flight
from lakelog.service.terminal.audit import AuditEntry, AuditLog


class Slots:
    """A maximum of calls of one kind at a time; one more waits ``wait_s`` seconds, and is then refused."""

    def __init__(self, kind: str, most: int, wait_s: float) -> None:
        self._kind, self._most, self._wait_s = kind, most, wait_s
        self._free = threading.BoundedSemaphore(most)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Context of a call. Raises Unavailable."""
        if not self._free.acquire(timeout=self._wait_s):
            raise Unavailable(f"{self._most} {self._kind} run already: try again in a few seconds")
        try:
            yield
        finally:
            self._free.release()


class AuditedCall:
    """Context of a call that writes one line to the audit log when it ends; ``rows`` are those sent or received."""

    def __init__(self, audit: AuditLog, identity: Identity, text: str, address: str, kind: str = "statement") -> None:
        self._audit, self._identity = audit, identity
        self._text, self._address, self._kind = text, address, kind
        self.rows = 0

    def __enter__(self) -> AuditedCall:
        self._began_ms, self._began_s = now_ms(), monotonic_s()
        return self

    def __exit__(self, kind: type[BaseException] | None, failure: BaseException | None, trace: Any) -> None:
        outcome = "done" if failure is None else "failed"
        if isinstance(failure, GeneratorExit):
            outcome = "cancelled"
        elif isinstance(failure, NotAllowed):
            outcome = "refused"
        user, role = self._identity.user, self._identity.role.word
        error = None if kind is None or outcome == "cancelled" else kind.__name__
        took = round((monotonic_s() - self._began_s) * 1000)
        self._audit.append(
            AuditEntry(
                self._began_ms,
                user,
                role,
                "",
                "",
                self._text,
                outcome,
                error,
                took,
                self.rows,
                self._kind,
                self._address,
            )
        )


class CallStream:
    """The batches of an answer. It ends what the call has opened after its last batch, or when gRPC drops it."""

    def __init__(self, batches: Iterator[Any], opened: ExitStack) -> None:
        self._batches, self._opened = batches, opened

    def __iter__(self) -> CallStream:
        return self

    def __next__(self) -> Any:
        with in_flight():
            try:
                return next(self._batches)
            except StopIteration:
                self._opened.close()
            except BaseException as failure:
                self._opened.__exit__(type(failure), failure, failure.__traceback__)
                raise
        raise StopIteration

    def __del__(self) -> None:
        dropped = GeneratorExit()
        self._opened.__exit__(GeneratorExit, dropped, None)
