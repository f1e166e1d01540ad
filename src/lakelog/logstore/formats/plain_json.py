"""``plain-json``: a record is a row, a JSON object of its columns, of a log that only another system writes.

Each record inserts its row, or replaces the one of its key. With ``log-store.key-format`` a record with a key and
without a value deletes the row of the key. Values are as in ``debezium-json``, also those of a connector that sends
rows without an envelope (``ExtractNewRecordState``), whose settings are the same options.

Source: Flink's json and upsert-kafka; Kafka's ``JsonConverter`` without schemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import Corrupt
from lakelog.fileformat.messages.encoded import joined
from lakelog.logstore.encoding.adopted_format import AdoptedFormat, Change, RawChanges
from lakelog.logstore.encoding.changes import CREATED, DELETED
from lakelog.logstore.encoding.connect_columns import Encodings, Meaning
from lakelog.logstore.encoding.json_rows import exact_object, exact_text
from lakelog.logstore.encoding.names_by_case import of_name
from lakelog.options.adopted import KEY_FORMAT
from lakelog.options.debezium import DECIMAL_MODE, TIME_MODE
from lakelog.options.option import Options

_DELETED_KEY: Final = b"-"
"""The first byte of what stands for a record without a value; its key follows. No JSON object begins so."""
_JSON: Final = "json"


class PlainJson(AdoptedFormat):
    """See the module."""

    slow: ClassVar[str] = "^-"

    def __init__(self, key_format: str = "", encodings: Encodings | None = None) -> None:
        super().__init__()
        self._key_format, self._encodings = key_format, encodings or Encodings()

    def of_table(self, options: Options, topic: str) -> Self:
        modes = (options.get_typed(option) or "" for option in (DECIMAL_MODE, TIME_MODE))
        return type(self)(options.get_typed(KEY_FORMAT) or "", Encodings(*modes))

    def completed(
        self, keys: pa.LargeBinaryArray, values: pa.LargeBinaryArray, names: Sequence[str]
    ) -> pa.LargeBinaryArray:
        if not self._key_format:
            return values
        if pc.any(pc.starts_with(values, _DELETED_KEY)).as_py():
            marked = joined(pa.scalar(_DELETED_KEY, pa.large_binary()), values)
            values = pc.if_else(pc.starts_with(values, _DELETED_KEY), marked, values)
        deleted = [
            None if value is not None or key is None else _DELETED_KEY + self._object_of(key, names)
            for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True)
        ]
        return pc.coalesce(values, pa.array(deleted, pa.large_binary()))

    def _object_of(self, key: bytes, names: Sequence[str]) -> bytes:
        """A key as the JSON object of the key's columns; other bytes as they are, so that they are a bad record."""
        try:
            if self._key_format == _JSON and key.lstrip().startswith(b"{"):
                fields = exact_object(key)
                if "schema" in fields and isinstance(fields.get("payload"), dict):  # of JsonConverter with schemas
                    fields = fields["payload"]
                return exact_text({name: of_name(fields, name, None) for name in names})
            value = key if self._key_format == _JSON else orjson.dumps(key.decode())
        except (Corrupt, UnicodeDecodeError, TypeError):
            return key
        return b"{" + orjson.dumps(names[0]) + b":" + value + b"}" if len(names) == 1 else key

    def meaning(self, kind: pa.DataType) -> Meaning:
        known = Meaning() if self._encodings == Encodings() else self._encodings.meaning(kind)
        return super().meaning(kind) if known == Meaning() else known

    def fields(self, image: pa.StructType) -> pa.Schema:
        return pa.schema(list(image))

    def columns(self, read: pa.Table) -> RawChanges | None:
        rows = read.combine_chunks().to_struct_array().combine_chunks()
        return RawChanges(rows, None, np.full(len(rows), CREATED, np.int8), np.ones(len(rows), np.int64))

    def parsed(self, value: bytes) -> list[Change]:
        if not value.startswith(_DELETED_KEY):
            return super().parsed(value)
        return [Change(DELETED, exact_object(value.removeprefix(_DELETED_KEY)), None)]

    def changes(self, record: Mapping[str, Any]) -> list[Change]:
        return [Change(CREATED, None, record)]

    def rows_in(self, record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if isinstance(record, dict):
            yield record
