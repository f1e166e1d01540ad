"""Rows of Python values for Paimon's Java core, by the types of their columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

EPOCH = dt.date(1970, 1, 1)
KINDS = ("+I", "-U", "+U", "-D")


class Rows:
    """Makes Java rows from Python values, through one gateway."""

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
        elif root == "VARIANT":
            made = self._data.variant.GenericVariant
            writer.writeVariant(at, made.fromJson(value) if isinstance(value, str) else made(*value))
        elif root == "DATE":
            writer.writeInt(at, (value - EPOCH).days)
        elif root == "TIME_WITHOUT_TIME_ZONE":
            writer.writeInt(at, millis_of_day(value))
        elif root.startswith("TIMESTAMP"):
            moment = np.datetime64(value)
            millis = moment.astype("M8[ms]")  # rounded down; nanoseconds end in the year 2262
            rest = (moment - millis).astype("m8[ns]").astype(np.int64)
            made = self._data.Timestamp.fromEpochMillis(int(millis.astype(np.int64)), int(rest))
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


def number(value: Any) -> Any:
    """A Decimal where the text was one; for rows given as text."""
    return Decimal(value) if isinstance(value, str) else value
