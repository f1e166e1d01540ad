"""The process in which the statements of one terminal run: ``python -m lakelog.service.terminal.worker.main``.

It reads messages from stdin and writes messages to its original stdout; other output, such as that of Spark's JVM, goes
to stderr. It ends with its stdin, that is, whenever its parent process has ended.
"""

from __future__ import annotations

import logging
import os
import queue
import shutil
import sys
import threading
import traceback
import warnings
from typing import Any, Final

from lakelog.service.child_process import Pipe
from lakelog.service.terminal.protocol.config import TerminalConfig
from lakelog.service.terminal.worker.runner import Runner

_JVM_LOST: Final = 3
_GRACE_S: Final = 4.0
"""Maximum seconds for stopping streams and Spark."""


class Worker:
    """Runs texts one after the other in the main thread; a second thread receives messages in the meantime."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._texts: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._messages = pipe.messages()
        opening = next(self._messages)
        self._directory: str = opening["directory"]
        self._runner = Runner(
            TerminalConfig.from_values(opening["config"]), self._directory, self._send, _exit_without_jvm
        )

    def serve(self) -> None:
        """Runs texts until the terminal has ended."""
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        self._pipe.send({"kind": "ready"})
        while (message := self._texts.get()) is not None:
            self._runner.run(message["execution"], message["text"], message["catalog"], message["database"])
            self._pipe.send({"kind": "idle", "execution": message["execution"]})
        self._runner.close()
        shutil.rmtree(self._directory, ignore_errors=True)  # the terminal may have ended without doing so

    def _listen(self) -> None:
        for message in self._messages:
            if message["op"] == "run":
                self._texts.put(message)
            elif message["op"] == "cancel":
                self._runner.cancel(message["execution"])
            elif message["op"] == "stop":
                self._runner.streams.stop_all(message["execution"], message["statement"])
        # the terminal has ended: end cleanly if that is fast, otherwise at once
        self._texts.put(None)
        threading.Timer(_GRACE_S, os._exit, (1,)).start()

    def _send(self, execution: int, kind: str, statement: int | None, **data: Any) -> None:
        try:
            self._pipe.send({"kind": kind, "execution": execution, "statement": statement, "data": data})
        except (OSError, ValueError):
            os._exit(1)


def _exit_without_jvm() -> None:
    """Ends this process because Spark's JVM has ended; the terminal reports it."""
    os._exit(_JVM_LOST)


def main() -> None:
    """Serves until the terminal or Spark's JVM has ended."""
    pipe = Pipe.to_parent()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    try:
        Worker(pipe).serve()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(_JVM_LOST)
    os._exit(0)


if __name__ == "__main__":
    main()
