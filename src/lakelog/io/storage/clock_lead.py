"""How far the clock of this machine is ahead of the storage's, for deletions of what is old."""

from __future__ import annotations

from lakelog.io import clock
from lakelog.io.names import new_attempt
from lakelog.io.storage.file_io import FileIO


def clock_lead_ms(io: FileIO, table_path: str) -> int:
    """Milliseconds by which the clock of this machine is ahead of the storage's; 0 if it is not.

    Writes a file and reads its time. A clock that is a month ahead makes the files of running writers, and partitions
    of today, look old. Raises Unavailable.
    """
    directory, name = f"{table_path}/lakelog/clock", new_attempt()
    try:
        io.write(f"{directory}/{name}", b"")
        now_ms = clock.now_ms()
        stored = [status.mtime_ms for status in io.list(directory) if status.name == name]
    finally:
        io.delete_dir(directory)
        io.delete_empty_dir(f"{table_path}/lakelog")
    return max(0, now_ms - max(stored, default=now_ms))
