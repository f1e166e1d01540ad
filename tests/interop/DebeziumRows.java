import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

import org.apache.flink.formats.common.TimestampFormat;
import org.apache.flink.formats.json.debezium.DebeziumJsonDeserializationSchema;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.LogicalTypeRoot;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.TypeConversions;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.Collector;

/**
 * Reads messages with Flink's own debezium-json deserialisation and prints the rows as JSON in the form of the golden
 * files. Compiled by Janino, which knows no generics: hence the casts.
 */
public class DebeziumRows {

    /** [row kind, [values]] of what each message says to a table of a row type, with Flink's default options. */
    public String read(String rowType, List messages) throws Exception {
        final LogicalType type = LogicalTypeParser.parse(rowType, DebeziumRows.class.getClassLoader());
        DataType physical = TypeConversions.fromLogicalToDataType(type);
        DebeziumJsonDeserializationSchema schema = new DebeziumJsonDeserializationSchema(
                physical, Collections.EMPTY_LIST, InternalTypeInfo.of(type), false, false, TimestampFormat.SQL);
        schema.open(null);
        final List rows = new ArrayList();
        Collector collector = new Collector() {
            public void collect(Object row) {
                StringBuilder out = new StringBuilder("[\"");
                out.append(((RowData) row).getRowKind().shortString()).append("\",");
                print(out, row, type);
                rows.add(out.append(']').toString());
            }

            public void close() {}
        };
        for (Object message : messages) {
            schema.deserialize((byte[]) message, collector);
        }
        return rows.toString();
    }

    static void print(StringBuilder out, Object value, LogicalType type) {
        LogicalTypeRoot root = type.getTypeRoot();
        if (value == null) {
            out.append("null");
        } else if (root == LogicalTypeRoot.ROW) {
            printRow(out, (RowData) value, (RowType) type);
        } else if (root == LogicalTypeRoot.ARRAY) {
            printArray(out, (ArrayData) value, ((ArrayType) type).getElementType());
        } else if (root == LogicalTypeRoot.MAP) {
            printMap(out, (MapData) value, (MapType) type);
        } else if (value instanceof byte[]) {
            out.append("\"0x");
            for (byte one : (byte[]) value) {
                out.append(String.format("%02x", new Object[] {new Byte(one)}));
            }
            out.append('"');
        } else if (root == LogicalTypeRoot.DATE) {
            quote(out, LocalDate.ofEpochDay(((Integer) value).longValue()).toString());
        } else if (root == LogicalTypeRoot.TIME_WITHOUT_TIME_ZONE) {
            quote(out, LocalTime.ofNanoOfDay(((Integer) value).longValue() * 1000000L).toString());
        } else if (value instanceof TimestampData) {
            boolean zone = root == LogicalTypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE;
            quote(out, ((TimestampData) value).toLocalDateTime().toString() + (zone ? "Z" : ""));
        } else if (value instanceof DecimalData) {
            quote(out, ((DecimalData) value).toBigDecimal().toPlainString());
        } else if (value instanceof Boolean || isFinite(value)) {
            out.append(value.toString());
        } else {
            quote(out, value.toString());
        }
    }

    private static boolean isFinite(Object value) {
        if (value instanceof Double || value instanceof Float) {
            double number = ((Number) value).doubleValue();
            return !Double.isNaN(number) && !Double.isInfinite(number);
        }
        return value instanceof Number;
    }

    private static void printRow(StringBuilder out, RowData row, RowType type) {
        out.append('[');
        for (int i = 0; i < type.getFieldCount(); i++) {
            out.append(i == 0 ? "" : ",");
            print(out, RowData.createFieldGetter(type.getTypeAt(i), i).getFieldOrNull(row), type.getTypeAt(i));
        }
        out.append(']');
    }

    private static void printArray(StringBuilder out, ArrayData array, LogicalType element) {
        out.append('[');
        for (int i = 0; i < array.size(); i++) {
            out.append(i == 0 ? "" : ",");
            print(out, ArrayData.createElementGetter(element).getElementOrNull(array, i), element);
        }
        out.append(']');
    }

    private static void printMap(StringBuilder out, MapData map, MapType type) {
        ArrayData keys = map.keyArray();
        ArrayData values = map.valueArray();
        out.append('[');
        for (int i = 0; i < map.size(); i++) {
            out.append(i == 0 ? "[" : ",[");
            print(out, ArrayData.createElementGetter(type.getKeyType()).getElementOrNull(keys, i), type.getKeyType());
            out.append(',');
            print(out, ArrayData.createElementGetter(type.getValueType()).getElementOrNull(values, i), type.getValueType());
            out.append(']');
        }
        out.append(']');
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", new Object[] {new Integer(c)}));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
