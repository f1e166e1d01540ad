"""The Spark engine of a terminal, which reports its start."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from lakelog.lake.lazy_engine import LazyEngine


class ObservedEngine(LazyEngine):
    """A lazy engine; ``around`` is a context for its start."""

    def __init__(self, around: Callable[[], AbstractContextManager[None]], *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._around = around

    @property
    def started(self) -> Any:
        """The real engine."""
        if self.is_started:
            return super().started
        with self._around():
            return super().started
