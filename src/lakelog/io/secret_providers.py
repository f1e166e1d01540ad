"""Providers of secrets: functions of the name after ``secret:<provider>:``. They raise InvalidOption without values."""

from __future__ import annotations

import os
import stat
from typing import Final

from lakelog.errors import InvalidOption
from lakelog.io.machine import machine_name

MOST_BYTES: Final = 64 << 10
"""Maximum size of a file with a secret; a chain of certificates is far smaller."""


def from_environment(name: str) -> str:
    """The value of an environment variable of this process."""
    value = os.environ.get(name)
    if value is None:
        raise InvalidOption(
            f"the environment of this process ({machine_name()}) has no variable '{name}': set it where the process "
            "starts, on Spark also for the executors (spark.executorEnv.NAME)"
        )
    return value


def from_file(path: str) -> str:
    """The text of a file that only its owner can read, without the line end at its end."""
    if not os.path.isabs(path):
        raise InvalidOption("the path of a file with a secret begins with '/'")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would wait for a writer
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise InvalidOption("this is no regular file")
            if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InvalidOption(f"users other than the owner can use the file: chmod 600 {path}")
            data = file.read(MOST_BYTES + 1)
    except OSError as failed:
        raise InvalidOption(f"the file cannot be read on {machine_name()}: {failed.strerror}") from None
    if len(data) > MOST_BYTES:
        raise InvalidOption(f"the file has more than {MOST_BYTES:,} bytes, which no secret has")
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise InvalidOption("the file is not text in UTF-8") from None
