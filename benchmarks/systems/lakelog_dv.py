"""lakelog with deletion vectors, so that a scan needs no merge."""

from __future__ import annotations

from typing import ClassVar

from systems.lakelog import Lakelog


class LakelogVectors(Lakelog):
    """Batches are compacted as they are written: without that, nobody would see them."""

    write_only = "false"
    options: ClassVar[dict[str, str]] = {"deletion-vectors.enabled": "true"}


SYSTEM = LakelogVectors
