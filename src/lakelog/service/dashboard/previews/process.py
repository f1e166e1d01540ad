"""The parent process of the previews: ``python -m lakelog.service.dashboard.previews.process``.

It has imported the readers and opened nothing. For each socket that it receives over stdin, it forks a child. The child
reads a request from the socket, writes the answer and ends. Its memory and time are limited, so a small file that
decompresses to gigabytes affects only the child. The parent ends with its stdin, that is, with the dashboard.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

import orjson

from lakelog.errors import LakelogError
from lakelog.lake import connect
from lakelog.lake.plain_rows import JSON_OPTIONS
from lakelog.service.dashboard.previews.grid import from_json
from lakelog.service.dashboard.previews.reads import read_grid

OVER_MEMORY: Final = "OverMemory"
_LOOK_S: Final = 0.01
_LONG_S: Final = 0.3
_NICE: Final = 10
_KIB: Final = 1024


def main() -> None:
    """Forks children until the dashboard has ended."""
    control = socket.socket(fileno=0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the foreground process
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for the children
    with control.makefile("rb", buffering=0) as first:
        config = orjson.loads(first.readline())
    while True:
        mark, sockets, _, _ = socket.recv_fds(control, 1, 1)
        if not mark:
            return
        if os.fork() == 0:
            control.close()
            try:
                _answer(socket.socket(fileno=sockets[0]), config)
            finally:
                os._exit(0)
        os.close(sockets[0])


def _answer(client: socket.socket, config: Mapping[str, Any]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, config["time_s"])  # its default action ends the process in any state
    most = _taken() + config["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (4 * most, 4 * most))
    threading.Thread(target=_watch, args=(client, most), daemon=True).start()
    request = from_json(orjson.loads(client.makefile("rb").readline()))
    try:
        with connect(**config["connect"]) as lake:
            answer = orjson.dumps({"grid": vars(read_grid(lake, request))}, default=str, option=JSON_OPTIONS)
    except LakelogError as failure:
        answer = orjson.dumps({"error": type(failure).__name__, "why": str(failure)})
    except (MemoryError, OSError) as failure:
        answer = orjson.dumps({"error": OVER_MEMORY, "why": str(failure)})
    client.sendall(answer)


def _watch(client: socket.socket, most: int) -> None:
    """Ends the process when it exceeds its memory limit; a slow one gets a lower priority."""
    is_long = False
    while _taken() <= most:
        if not is_long and time.process_time() > _LONG_S:
            is_long = True
            os.nice(_NICE)
        time.sleep(_LOOK_S)
    client.send(orjson.dumps({"error": OVER_MEMORY, "why": ""}))
    os._exit(1)


def _taken() -> int:
    """The peak memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB


if __name__ == "__main__":
    main()
