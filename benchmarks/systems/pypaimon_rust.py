"""pypaimon with its Rust core switched on for plans, reads, writes and commits."""

from __future__ import annotations

from typing import ClassVar

from systems.pypaimon import PyPaimon


class PyPaimonRust(PyPaimon):
    """What the core does not do, pypaimon does."""

    options: ClassVar[dict[str, str]] = {
        "scan.native-plan.enabled": "true",
        "read.native.enabled": "true",
        "write.native.enabled": "true",
        "commit.native.enabled": "true",
    }


SYSTEM = PyPaimonRust
