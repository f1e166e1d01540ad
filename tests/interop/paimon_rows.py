"""Values between Python and Paimon's Java core: rows are written by their types, and read as the golden rows are."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

EPOCH = dt.date(1970, 1, 1)
KINDS = ("+I", "-U", "+U", "-D")


class Rows:
    """Makes Java rows from Python values and Python values from Java rows, through one gateway."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self._data = gateway.jvm.org.apache.paimon.data
        self._kinds = gateway.jvm.org.apache.paimon.types.RowKind

    def to_java(self, values: Sequence[Any], types: Sequence[Any], kind: str = "+I") -> Any:
        """A BinaryRow; ``types`` are Paimon's DataTypes."""
        row = self._data.BinaryRow(len(values))
        writer = self._data.BinaryRowWriter(row)
        for at, (value, type_) in enumerate(zip(values, types, strict=True)):
            self._put(writer, at, value, type_)
        writer.complete()
        row.setRowKind(self._kinds.fromByteValue(KINDS.index(kind)))
        return row

    def _put(self, writer: Any, at: int, value: Any, type_: Any) -> None:
        root = type_.getTypeRoot().name()
        if value is None:
            # a slot of fixed length still needs its place
            if root == "DECIMAL" and type_.getPrecision() > 18:
                writer.writeDecimal(at, None, type_.getPrecision())
            elif root.startswith("TIMESTAMP") and type_.getPrecision() > 3:
                writer.writeTimestamp(at, None, type_.getPrecision())
            else:
                writer.setNullAt(at)
            return
        if root in ("CHAR", "VARCHAR"):
            writer.writeString(at, self._data.BinaryString.fromString(value))
        elif root in ("BINARY", "VARBINARY"):
            writer.writeBinary(at, value, 0, len(value))
        elif root == "DECIMAL":
            big = self._gateway.jvm.java.math.BigDecimal(str(value))
            made = self._data.Decimal.fromBigDecimal(big, type_.getPrecision(), type_.getScale())
            writer.writeDecimal(at, made, type_.getPrecision())
        elif root == "DATE":
            writer.writeInt(at, (value - EPOCH).days)
        elif root == "TIME_WITHOUT_TIME_ZONE":
            writer.writeInt(at, millis_of_day(value))
        elif root.startswith("TIMESTAMP"):
            nanos = int(np.datetime64(value, "ns").astype(np.int64))
            made = self._data.Timestamp.fromEpochMillis(nanos // 1_000_000, nanos % 1_000_000)
            writer.writeTimestamp(at, made, type_.getPrecision())
        elif root == "ARRAY":
            writer.writeArray(at, self._array(value, type_.getElementType()), self._serializer(type_))
        elif root == "MAP":
            keys = self._array(list(value), type_.getKeyType())
            made = self._data.BinaryMap.valueOf(keys, self._array(list(value.values()), type_.getValueType()))
            writer.writeMap(at, made, self._serializer(type_))
        elif root == "ROW":
            inner = [f.type() for f in type_.getFields()]
            writer.writeRow(at, self.to_java(value, inner), self._serializer(type_))
        else:
            getattr(writer, _WRITERS[root])(at, value)

    def _array(self, values: Sequence[Any], type_: Any) -> Any:
        array = self._data.BinaryArray()
        size = self._data.BinaryArray.calculateFixLengthPartSize(type_)
        writer = self._data.BinaryArrayWriter(array, len(values), size)
        for at, value in enumerate(values):
            if value is None:
                writer.setNullAt(at, type_)
            else:
                self._put(writer, at, value, type_)
        writer.complete()
        return array

    def _serializer(self, type_: Any) -> Any:
        return self._data.serializer.InternalSerializers.create(type_)

    def to_python(self, iterator: Any, fields: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """(row kind, values) of each row of a Java iterator of InternalRow."""
        types = [f.type() for f in fields]
        getters = [self._data.InternalRow.createFieldGetter(t, i) for i, t in enumerate(types)]
        while iterator.hasNext():
            row = iterator.next()
            yield (
                row.getRowKind().shortString(),
                tuple(self._value(g.getFieldOrNull(row), t) for g, t in zip(getters, types, strict=True)),
            )

    def _value(self, value: Any, type_: Any) -> Any:
        if value is None:
            return None
        root = type_.getTypeRoot().name()
        if root == "ARRAY":
            return self._values(value, type_.getElementType())
        if root in ("MAP", "MULTISET"):
            count = self._gateway.jvm.org.apache.paimon.types.DataTypes.INT()
            keys = self._values(value.keyArray(), type_.getKeyType() if root == "MAP" else type_.getElementType())
            values = self._values(value.valueArray(), type_.getValueType() if root == "MAP" else count)
            return sorted([list(pair) for pair in zip(keys, values, strict=True)], key=repr)
        if root == "ROW":
            fields = list(type_.getFields())
            getters = [self._data.InternalRow.createFieldGetter(f.type(), i) for i, f in enumerate(fields)]
            return {
                f.name(): self._value(g.getFieldOrNull(value), f.type()) for f, g in zip(fields, getters, strict=True)
            }
        return printed(value, root)

    def _values(self, array: Any, type_: Any) -> list[Any]:
        getter = self._data.InternalArray.createElementGetter(type_)
        return [self._value(getter.getElementOrNull(array, at), type_) for at in range(array.size())]


_WRITERS = {
    "BOOLEAN": "writeBoolean",
    "TINYINT": "writeByte",
    "SMALLINT": "writeShort",
    "INTEGER": "writeInt",
    "BIGINT": "writeLong",
    "FLOAT": "writeFloat",
    "DOUBLE": "writeDouble",
}


def millis_of_day(value: dt.time) -> int:
    """A time of day as the format keeps it."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def printed(value: Any, root: str) -> Any:
    """A value of an atomic type as the rows of the golden files hold it."""
    if root == "DATE":
        return (EPOCH + dt.timedelta(days=value)).isoformat()
    if root == "TIME_WITHOUT_TIME_ZONE":
        return java_time((dt.datetime.min + dt.timedelta(milliseconds=value)).time())
    if root.startswith("TIMESTAMP"):
        text = value.toLocalDateTime().toString()
        return text + ("Z" if root.endswith("LOCAL_TIME_ZONE") else "")
    if root == "DECIMAL":
        return f"{value.toBigDecimal():f}"
    if root in ("VARCHAR", "CHAR"):
        return value.toString()
    if root in ("BINARY", "VARBINARY"):
        return f"0x{bytes(value).hex()}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return float(str(np.float32(value))) if root == "FLOAT" else value


def java_time(value: dt.time) -> str:
    """A time of day as Java prints it."""
    return value.isoformat("milliseconds" if value.microsecond else "seconds" if value.second else "minutes")


def number(value: Any) -> Any:
    """A Decimal where the text was one; for rows given as text."""
    return Decimal(value) if isinstance(value, str) else value
