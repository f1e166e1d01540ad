"""Row kinds of a changelog, with the numbers that Paimon writes into ``_VALUE_KIND``."""

from __future__ import annotations

from typing import Final

INSERT: Final = 0
UPDATE_BEFORE: Final = 1
UPDATE_AFTER: Final = 2
DELETE: Final = 3

NAMES: Final = ("+I", "-U", "+U", "-D")
NUMBERS: Final = {name: number for number, name in enumerate(NAMES)}

ROW_KIND_COLUMN: Final = "_row_kind"
"""The column that carries the row kind as text in Arrow batches and DataFrames of changes."""
