"""The parent process of the previews: ``python -m lakelog.service.dashboard.previews.process``.

It has imported all parts that read, and opened nothing. Its children are forked before they are needed: each waits for
a socket from stdin, reads a request from that socket, writes the answer and ends, and the parent forks another one. The
memory and time of a child are limited, so a small file that decompresses to gigabytes affects only the child. All of
them end when stdin is closed, that is, with the dashboard. For a tail a child starts another process, with the same
limit of memory, which ends when the socket is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import orjson

from lakelog.errors import LakelogError
from lakelog.lake import Lake, connect
from lakelog.lake.output.plain_rows import JSON_OPTIONS
from lakelog.options.parts import CATALOGS, FILE_FORMATS, LOG_FORMATS, LOG_SYSTEMS, MERGE_ENGINES
from lakelog.service.dashboard.previews.export import COMPLETE, FAILED, HEAD, MORE, export_chunks
from lakelog.service.dashboard.previews.grid import ExportRequest, TailRequest, from_json
from lakelog.service.dashboard.previews.reads import read_grid
from lakelog.service.dashboard.previews.tail import event, tail_events

OVER_MEMORY: Final = "OverMemory"
_CHILDREN: Final = 3
"""Number of children: two answer at a time, and one is ready while an ended one is replaced."""
_IS_OVER: Final = 3
"""Exit code of a child that has seen the end of stdin."""
_EVERY_S: Final = 0.01
_LONG_S: Final = 0.1
"""CPU seconds after which a child gets a lower priority: a usual preview needs a tenth of that."""
_NICE: Final = 5
_KIB: Final = 1024


def main() -> None:
    """Keeps children ready until the dashboard has ended."""
    control = socket.socket(fileno=0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the foreground process
    with control.makefile("rb", buffering=0) as first:
        config = orjson.loads(first.readline())
    for parts in (CATALOGS, FILE_FORMATS, LOG_FORMATS, LOG_SYSTEMS, MERGE_ENGINES):
        parts.importable()
    control.sendall(b"\n")
    gc.freeze()  # a collection in a child would copy the pages of all objects made so far
    children = 0
    while True:
        while children < _CHILDREN:
            if os.fork() == 0:
                _serve(control, config)
            children += 1
        _, status = os.wait()
        children -= 1
        if os.waitstatus_to_exitcode(status) == _IS_OVER:
            return


def _serve(control: socket.socket, config: Mapping[str, Any]) -> NoReturn:
    """Answers the next request, and ends this process."""
    code = _IS_OVER
    try:
        mark, sockets, _, _ = socket.recv_fds(control, 1, 1)
        if mark:
            code = 0
            control.close()
            _answer(socket.socket(fileno=sockets[0]), config)
    finally:
        os._exit(code)


def _answer(client: socket.socket, config: Mapping[str, Any]) -> None:
    signal.setitimer(signal.ITIMER_REAL, config["time_s"])  # its default action ends the process in any state
    request = from_json(orjson.loads(client.makefile("rb").readline()))
    if isinstance(request, TailRequest | ExportRequest):
        if os.fork() == 0:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if isinstance(request, TailRequest):
                _follow(client, config, request.table)
            _export(client, config, request)
        return
    _limit_memory(client, config, orjson.dumps({"error": OVER_MEMORY, "why": ""}))
    try:
        with connect(**config["connect"]) as lake:
            answer = orjson.dumps({"grid": vars(read_grid(lake, request))}, default=str, option=JSON_OPTIONS)
    except LakelogError as failure:
        is_over = isinstance(failure.__cause__, MemoryError)
        answer = orjson.dumps({"error": OVER_MEMORY if is_over else type(failure).__name__, "why": str(failure)})
    except (MemoryError, OSError) as failure:
        answer = orjson.dumps({"error": OVER_MEMORY, "why": str(failure)})
    except Exception as failure:  # a fault of lakelog: without an answer, it would look like a slow read
        why = f"this preview failed inside the dashboard: {type(failure).__name__}: {failure}"
        answer = orjson.dumps({"error": LakelogError.__name__, "why": why})
    client.sendall(answer)


def _follow(client: socket.socket, config: Mapping[str, Any], table: str) -> NoReturn:
    """Sends the events of a tail until the client closes the socket, and ends this process."""
    over = f"a record needs more than {config['memory_bytes'] >> 20} MiB of memory to be shown"
    _limit_memory(client, config, event("trouble", {"why": over}))
    threading.Thread(target=_end_with, args=(client,), daemon=True).start()

    async def send(lake: Lake) -> None:
        async for one in tail_events(lake.table(table)):
            client.sendall(one)

    try:
        with connect(**config["connect"]) as lake:
            asyncio.run(send(lake))
    except Exception as failure:
        why = over if isinstance(failure.__cause__ or failure, MemoryError) else str(failure)
        with contextlib.suppress(OSError):
            client.sendall(event("trouble", {"why": why}))
    finally:
        os._exit(0)


def _export(client: socket.socket, config: Mapping[str, Any], request: ExportRequest) -> NoReturn:
    """Sends the chunks of an export, each after its head, and an empty one at the end. Then this process ends.

    An error is a chunk of its own, with class and text as JSON.
    """

    def send(mark: int, chunk: bytes) -> None:
        client.sendall(HEAD.pack(mark, len(chunk)) + chunk)

    why = f"the export needs more than {config['memory_bytes'] >> 20} MiB of memory"
    over = orjson.dumps({"error": OVER_MEMORY, "why": why})
    _limit_memory(client, config, HEAD.pack(FAILED, len(over)) + over)
    try:
        with connect(**config["connect"]) as lake:
            for chunk in export_chunks(lake, request):
                send(MORE, chunk)
        send(COMPLETE, b"")
    except (LakelogError, MemoryError, OSError) as failure:
        kind = type(failure).__name__ if isinstance(failure, LakelogError) else OVER_MEMORY
        with contextlib.suppress(OSError):
            send(FAILED, orjson.dumps({"error": kind, "why": str(failure) or why}))
    finally:
        os._exit(0)


def _end_with(client: socket.socket) -> None:
    """Ends the process when the client closes the socket, on which it sends nothing more."""
    with contextlib.suppress(OSError):
        client.recv(1)
    os._exit(0)


def _limit_memory(client: socket.socket, config: Mapping[str, Any], last: bytes) -> None:
    """Limits the memory that this process takes from now on; beyond it, ``last`` is the end of the answer."""
    most = _taken() + config["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (4 * most, 4 * most))
    threading.Thread(target=_watch, args=(client, most, last), daemon=True).start()


def _watch(client: socket.socket, most: int, last: bytes) -> None:
    """Ends the process when it exceeds its memory limit; a slow one gets a lower priority."""
    is_long = False
    while _taken() <= most:
        if not is_long and time.process_time() > _LONG_S:
            is_long = True
            os.nice(_NICE)
        time.sleep(_EVERY_S)
    client.send(last)
    os._exit(1)


def _taken() -> int:
    """The peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


if __name__ == "__main__":
    main()
