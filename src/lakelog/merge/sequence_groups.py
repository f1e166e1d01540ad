"""Sequence groups of a table with merge engine ``partial-update``, and their newer rows (sheet 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidOption
from lakelog.merge.base import Indices, Mask, check_ordered
from lakelog.merge.keys import Numbers
from lakelog.merge.numbers import dense, order_numbers
from lakelog.options.fields import sequence_groups
from lakelog.options.table import PARTIAL_REMOVE_ON_GROUP
from lakelog.paimon.schema.schema import TableSchema


@dataclass(frozen=True)
class SequenceGroup:
    """A sequence group: ``fields`` decide if a row is newer, and ``updated`` are the columns that follow them.

    ``removes``: a newer row of kind -D deletes the key.
    """

    fields: tuple[str, ...]
    updated: tuple[str, ...]
    removes: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.fields, *self.updated)

    def ages(self, columns: Sequence[pa.Array]) -> Numbers:
        """The age of each row in this group, from 1; 0 for rows whose sequence fields are all NULL.

        ``columns`` are the values of ``fields``.
        """
        is_empty = np.logical_and.reduce([c.is_null().to_numpy(zero_copy_only=False) for c in columns])
        return np.where(is_empty, 0, dense(order_numbers(columns)) + 1)


def groups_of(schema: TableSchema, remove_on: Sequence[str]) -> tuple[SequenceGroup, ...]:
    """The sequence groups of a table; ``remove_on`` is option ``partial-update.remove-record-on-sequence-group``.

    Raises InvalidOption for key columns in a group, a column in two groups, and names in no group; InvalidSchema for
    unknown columns.
    """
    groups = tuple(
        SequenceGroup(fields, updated, bool(set(fields) & set(remove_on)))
        for fields, updated in sequence_groups(schema.options)
    )
    seen: set[str] = set()
    for group in groups:
        schema.select(group.columns)
        key = f"fields.{','.join(group.fields)}.sequence-group"
        check_ordered(key, schema.select(group.fields))
        for name in group.columns:
            if name in schema.primary_keys:
                raise InvalidOption(f"option '{key}' names the primary key column '{name}': leave it out")
        twice = seen & set(group.updated)
        if twice:
            raise InvalidOption(
                f"option '{key}' names column '{min(twice)}', which belongs to another group: remove it"
            )
        seen |= set(group.updated)
    unknown = set(remove_on) - {name for group in groups for name in group.fields}
    if unknown:
        raise InvalidOption(
            f"option '{PARTIAL_REMOVE_ON_GROUP.key}' names '{min(unknown)}', which orders no sequence group: name a "
            "column of a key 'fields.<columns>.sequence-group'"
        )
    return groups


def is_newer(ages: Numbers, starts: Indices) -> Mask:
    """A mask of the non-empty rows that are at least as new as all earlier ones of the same key.

    ``ages`` as in ``SequenceGroup.ages``; ``starts`` are the positions at which keys start, or restart.
    """
    sizes = np.diff(starts, append=len(ages))
    shift = np.repeat(np.arange(len(starts), dtype=np.int64) * (int(ages.max(initial=0)) + 1), sizes)
    newest: npt.NDArray[np.int64] = np.maximum.accumulate(ages + shift) - shift
    newer: Mask = (ages == newest) & (ages > 0)
    return newer


def removals(ages: Sequence[Numbers], is_delete: Mask, starts: Indices) -> Mask:
    """A mask of the rows that delete their key: of kind -D and newer in a group that removes.

    ``ages`` are those of each such group. A removal makes its own ages the newest of all groups, so with several groups
    it affects which later rows are newer.
    """
    is_found = np.zeros(len(is_delete), dtype=np.bool_)
    if len(ages) == 1:
        return is_newer(ages[0], starts) & is_delete
    while True:
        begins = np.union1d(starts, np.flatnonzero(is_found))
        newer = np.logical_or.reduce([is_newer(a, begins) for a in ages]) if ages else is_found
        candidates = np.flatnonzero(newer & is_delete & ~is_found)
        if not len(candidates):
            return is_found
        # Only the first one of each stretch is certain: the others were compared with rows that it discards.
        stretch = np.searchsorted(begins, candidates, side="right")
        is_found[candidates[np.unique(stretch, return_index=True)[1]]] = True
