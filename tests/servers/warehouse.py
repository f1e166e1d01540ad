"""A warehouse on a server that a test started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog import Lake, connect


@dataclass(frozen=True)
class Warehouse:
    """A place that nobody else uses, and how to reach it."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)

    def connect(self, **arguments: object) -> Lake:
        return connect(warehouse=self.uri, storage_options=self.options, **arguments)  # type: ignore[arg-type]
