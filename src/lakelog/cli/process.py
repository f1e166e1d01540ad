"""The process of one command: its output, and the output of what it starts."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from dataclasses import dataclass
from typing import TextIO


@dataclass
class Process:
    """State of one run of ``lakelog``; ``owned`` says that this process does nothing else (false inside a test)."""

    owned: bool = False
    debug: bool = False
    silenced: bool = False

    def silence_children(self) -> None:
        """Gives Spark's JVM and workers nowhere to write, before they start; our own output goes on as before.

        Without it Spark's start-up messages would stand between the rows. ``--debug`` keeps them.
        """
        if self.debug or self.silenced or not self.owned:
            return
        self.silenced = True
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        sys.stdout, sys.stderr = _moved(sys.stdout), _moved(sys.stderr)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)

    def drop_output(self) -> None:
        """Sends what is left in stdout's buffer nowhere, so that the interpreter's exit does not complain."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _moved(stream: TextIO) -> TextIO:
    """The same stream on a descriptor that child processes do not inherit."""
    stream.flush()
    copy = os.dup(stream.fileno())
    return os.fdopen(copy, "w", encoding=stream.encoding, errors=stream.errors, buffering=1 if stream.isatty() else -1)
