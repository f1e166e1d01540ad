import java.math.BigDecimal;
import java.math.MathContext;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.List;
import java.util.Map;

import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalMap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.data.variant.Variant;
import org.apache.paimon.fs.Path;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.types.ArrayType;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.MapType;
import org.apache.paimon.types.MultisetType;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.CloseableIterator;

/**
 * Opens tables, reads them whole and prints the rows as JSON in the form of the golden files: one call for a table,
 * where a call for each value takes a thousand times as long. Compiled by Janino, which knows no generics: hence the
 * casts.
 */
public class PaimonRows {

    /** A table as its catalog has it now, with options for one use. */
    public Table table(String warehouse, String database, String name, Map options) throws Exception {
        Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(new Path(warehouse)));
        Table table = catalog.getTable(Identifier.create(database, name));
        return options.isEmpty() ? table : table.copy(options);
    }

    /** The names of the columns, as a list. */
    public String names(Table table) {
        StringBuilder out = new StringBuilder("[");
        for (Object name : table.rowType().getFieldNames()) {
            comma(out, '[');
            quote(out, (String) name);
        }
        return out.append(']').toString();
    }

    /** [row kind, [values]] of each row of a batch scan. */
    public String scan(Table table) throws Exception {
        StringBuilder out = new StringBuilder("[");
        ReadBuilder builder = table.newReadBuilder();
        read(out, builder, builder.newScan().plan(), table.rowType(), "");
        return out.append(']').toString();
    }

    /** [row kind, [values]] of each row of a batch scan of the files that may have a value in a column. */
    public String scanEqual(Table table, String column, Object value) throws Exception {
        StringBuilder out = new StringBuilder("[");
        PredicateBuilder predicates = new PredicateBuilder(table.rowType());
        Object literal = value instanceof String ? BinaryString.fromString((String) value) : value;
        ReadBuilder builder = table.newReadBuilder().withFilter(predicates.equal(predicates.indexOf(column), literal));
        read(out, builder, builder.newScan().plan(), table.rowType(), "");
        return out.append(']').toString();
    }

    /** [next snapshot, row kind, [values]] of what a stream restored at a snapshot reads up to the newest one. */
    public String stream(Table table, long start) throws Exception {
        StringBuilder out = new StringBuilder("[");
        ReadBuilder builder = table.newReadBuilder();
        StreamTableScan scan = builder.newStreamScan();
        scan.restore(Long.valueOf(start));
        while (true) {
            TableScan.Plan plan = scan.plan();
            Long following = (Long) scan.checkpoint();
            read(out, builder, plan, table.rowType(), following + ",");
            Long newest = ((FileStoreTable) table).snapshotManager().latestSnapshotId();
            if (following == null || newest == null || following.longValue() > newest.longValue()) {
                return out.append(']').toString();
            }
        }
    }

    private void read(StringBuilder out, ReadBuilder builder, TableScan.Plan plan, RowType type, String before)
            throws Exception {
        CloseableIterator rows = builder.newRead().createReader(plan).toCloseableIterator();
        try {
            while (rows.hasNext()) {
                InternalRow row = (InternalRow) rows.next();
                comma(out, '[');
                out.append('[').append(before).append('"').append(row.getRowKind().shortString()).append("\",[");
                for (int i = 0; i < type.getFieldCount(); i++) {
                    comma(out, '[');
                    DataType kind = type.getTypeAt(i);
                    value(out, InternalRow.createFieldGetter(kind, i).getFieldOrNull(row), kind);
                }
                out.append("]]");
            }
        } finally {
            rows.close();
        }
    }

    private void value(StringBuilder out, Object value, DataType type) {
        String root = type.getTypeRoot().name();
        if (value == null) {
            out.append("null");
        } else if (root.equals("ARRAY")) {
            array(out, (InternalArray) value, ((ArrayType) type).getElementType());
        } else if (root.equals("MAP")) {
            pairs(out, (InternalMap) value, ((MapType) type).getKeyType(), ((MapType) type).getValueType());
        } else if (root.equals("MULTISET")) {
            pairs(out, (InternalMap) value, ((MultisetType) type).getElementType(), DataTypes.INT());
        } else if (root.equals("ROW")) {
            row(out, (InternalRow) value, ((RowType) type).getFields());
        } else if (root.equals("FLOAT")) {
            number(out, ((Float) value).doubleValue(), shortest(((Float) value).floatValue()));
        } else if (root.equals("DOUBLE")) {
            number(out, ((Double) value).doubleValue(), value.toString());
        } else if (value instanceof Number && root.equals("DATE")) {
            quote(out, LocalDate.ofEpochDay(((Integer) value).longValue()).toString());
        } else if (value instanceof Number && root.equals("TIME_WITHOUT_TIME_ZONE")) {
            quote(out, LocalTime.ofNanoOfDay(((Integer) value).longValue() * 1000000L).toString());
        } else if (value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof Timestamp) {
            String text = ((Timestamp) value).toLocalDateTime().toString();
            quote(out, root.endsWith("LOCAL_TIME_ZONE") ? text + "Z" : text);
        } else if (value instanceof Decimal) {
            quote(out, ((Decimal) value).toBigDecimal().toPlainString());
        } else if (value instanceof Variant) {
            out.append("{\"value\":");
            quote(out, hex(((Variant) value).value()));
            out.append(",\"metadata\":");
            quote(out, hex(((Variant) value).metadata()));
            out.append('}');
        } else if (value instanceof byte[]) {
            quote(out, hex((byte[]) value));
        } else {
            quote(out, value.toString());
        }
    }

    private void array(StringBuilder out, InternalArray array, DataType type) {
        InternalArray.ElementGetter getter = InternalArray.createElementGetter(type);
        out.append('[');
        for (int i = 0; i < array.size(); i++) {
            comma(out, '[');
            value(out, getter.getElementOrNull(array, i), type);
        }
        out.append(']');
    }

    /** A map is an object whose one name is empty; who reads it gives its pairs their order. */
    private void pairs(StringBuilder out, InternalMap map, DataType keyType, DataType valueType) {
        InternalArray.ElementGetter keys = InternalArray.createElementGetter(keyType);
        InternalArray.ElementGetter values = InternalArray.createElementGetter(valueType);
        out.append("{\"\":[");
        for (int i = 0; i < map.size(); i++) {
            comma(out, '[');
            out.append('[');
            value(out, keys.getElementOrNull(map.keyArray(), i), keyType);
            out.append(',');
            value(out, values.getElementOrNull(map.valueArray(), i), valueType);
            out.append(']');
        }
        out.append("]}");
    }

    private void row(StringBuilder out, InternalRow row, List fields) {
        out.append('{');
        for (int i = 0; i < fields.size(); i++) {
            DataField field = (DataField) fields.get(i);
            comma(out, '{');
            quote(out, field.name());
            out.append(':');
            value(out, InternalRow.createFieldGetter(field.type(), i).getFieldOrNull(row), field.type());
        }
        out.append('}');
    }

    private static void number(StringBuilder out, double value, String text) {
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            quote(out, Double.toString(value));
        } else {
            out.append(text);
        }
    }

    /** The fewest digits that give this float again; Java printed more of them before version 19. */
    private static String shortest(float value) {
        if (value == 0 || Float.isNaN(value) || Float.isInfinite(value)) {
            return Float.toString(value);
        }
        BigDecimal exact = new BigDecimal((double) value);
        for (int digits = 1; digits < 9; digits++) {
            BigDecimal rounded = exact.round(new MathContext(digits));
            if (rounded.floatValue() == value) {
                return Double.toString(rounded.doubleValue());
            }
        }
        return Double.toString(exact.round(new MathContext(9)).doubleValue());
    }

    private static String hex(byte[] bytes) {
        StringBuilder out = new StringBuilder("0x");
        for (int i = 0; i < bytes.length; i++) {
            out.append(Character.forDigit((bytes[i] >> 4) & 15, 16)).append(Character.forDigit(bytes[i] & 15, 16));
        }
        return out.toString();
    }

    private static void comma(StringBuilder out, char opening) {
        if (out.charAt(out.length() - 1) != opening) {
            out.append(',');
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 32 || c > 126) {
                String digits = Integer.toHexString(c);
                out.append("\\u").append("0000".substring(digits.length())).append(digits);
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
