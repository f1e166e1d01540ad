"""A new statement, procedure, method or system table meets the old ones: histories run it, or say why they do not."""

from __future__ import annotations

import pytest

from lakelog.options.parts import MERGE_ENGINES
from merge_reference import FOLDS
from model.coverage import LEFT_OUT, covered, surface

ENTRIES = sorted(surface())


@pytest.mark.parametrize(
    "kind", ["statement", "procedure", "system table", "optimizer", "constraint", "Lake", "Table", "TableWriter"]
)
def test_every_entry_has_an_action_or_a_reason(kind: str) -> None:
    entries = {entry for entry in ENTRIES if entry.startswith((f"{kind}:", f"{kind}."))}
    assert sorted(entries - covered() - set(LEFT_OUT)) == []


def test_no_reason_is_given_for_what_histories_run_or_what_is_gone() -> None:
    assert sorted(set(LEFT_OUT) & covered()) == []
    assert sorted(set(LEFT_OUT) - set(ENTRIES)) == []
    assert sorted(entry for entry in covered() - set(ENTRIES) if ":" in entry or "." in entry) == []


def test_every_merge_engine_has_its_words() -> None:
    assert sorted(set(MERGE_ENGINES) - set(FOLDS)) == []
