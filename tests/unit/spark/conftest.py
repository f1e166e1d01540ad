"""The tables of the file store's tests."""

from __future__ import annotations

from unit.filestore.conftest import make_table as make_table
