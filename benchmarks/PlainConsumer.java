import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;

/** Kafka's Java client, which checks each batch's CRC: the number of records of partition 0 and their digest. */
public class PlainConsumer {

    private static final CRC32 DIGEST = new CRC32();

    public static void main(String[] given) {
        long count = Long.parseLong(given[2]), next = 0;
        Properties properties = new Properties();
        properties.put("bootstrap.servers", given[0]);
        properties.put("check.crcs", "true");
        properties.put("max.poll.records", "50000");
        String bytes = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(withDeserializers(properties, bytes))) {
            TopicPartition partition = new TopicPartition(given[1], 0);
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            while (next < count) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(30))) {
                    if (record.offset() != next++) {
                        throw new IllegalStateException("offset " + record.offset() + " after " + (next - 2));
                    }
                    add(record.key());
                    add(record.value());
                    for (Header header : record.headers()) {
                        add(header.key().getBytes());
                        add(header.value());
                    }
                }
            }
        }
        System.out.println(next + " " + DIGEST.getValue());
    }

    private static Properties withDeserializers(Properties properties, String name) {
        properties.put("key.deserializer", name);
        properties.put("value.deserializer", name);
        return properties;
    }

    private static void add(byte[] part) {
        DIGEST.update(ByteBuffer.allocate(4).putInt(part == null ? -1 : part.length).array());
        if (part != null) {
            DIGEST.update(part);
        }
    }
}
