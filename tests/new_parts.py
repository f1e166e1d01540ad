"""Parts that are added while the tests run: a package with entry points, as a user of lakelog would install it."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakelog.options.registry import installed_parts

_PACKAGE = Path(__file__).parent / "other_package"
MODULES = ("others_catalog", "others_merge", "others_log", "others_log_system", "others_secrets", "others_sql")


def install(directory: Path) -> None:
    """Writes the package to a directory as pip would."""
    metadata = directory / "others-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    shutil.copy(_PACKAGE / "entry_points.txt", metadata)
    for module in MODULES:
        shutil.copy(_PACKAGE / f"{module}.py", directory)


@contextmanager
def installed(directory: Path) -> Iterator[None]:
    """Inside the block the package is on the path of this process."""
    install(directory)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(directory))
        importlib.invalidate_caches()
        installed_parts.cache_clear()
        try:
            yield
        finally:
            installed_parts.cache_clear()
            for module in MODULES:
                sys.modules.pop(module, None)
