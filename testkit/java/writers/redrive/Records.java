package redrive;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes one record, and shows records byte by byte. */
final class Records {
    /** A value that begins with `hex:` is bytes. */
    static void produce(String bootstrap, String topic, String key, String value) throws Exception {
        Writers.create(bootstrap, topic);
        var headers = new RecordHeaders().add("type", bytes("OrderPlaced"));
        try (var producer = new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), new ByteArraySerializer(),
                new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>(topic, 0, bytes(key), bytes(value), headers)).get();
        }
    }

    private static byte[] bytes(String text) {
        return text.startsWith("hex:") ? HexFormat.of().parseHex(text.substring(4))
                : text.getBytes(StandardCharsets.UTF_8);
    }

    /** Prints so many records of a topic's first partition, one JSON object a line. */
    static void capture(String bootstrap, String topic, int count) throws Exception {
        long deadline = System.nanoTime() + Duration.ofMinutes(3).toNanos();
        Writers.create(bootstrap, topic);
        try (var consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrap), new ByteArrayDeserializer(),
                new ByteArrayDeserializer())) {
            var partition = List.of(new TopicPartition(topic, 0));
            consumer.assign(partition);
            consumer.seekToBeginning(partition);
            int seen = 0;
            while (seen < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(topic + " has only " + seen + " records");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (seen++ < count) {
                        System.out.println(json(record));
                    }
                }
            }
        }
    }

    private static String json(ConsumerRecord<byte[], byte[]> record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add("{\"name\":" + quoted(header.key()) + "," + field(header.value()) + "}");
        }
        return "{\"topic\":" + quoted(record.topic()) + ",\"partition\":" + record.partition() + ",\"offset\":"
                + record.offset() + ",\"timestamp\":" + record.timestamp() + ",\"key\":{" + field(record.key())
                + "},\"value\":{" + field(record.value()) + "},\"headers\":[" + String.join(",", headers) + "]}";
    }

    /** Bytes that are plain text are shown as such, so that a person can read a sample; all others in base64. */
    private static String field(byte[] bytes) {
        if (bytes == null) {
            return "\"null\":true";
        }
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
            if (text.chars().allMatch(c -> c >= ' ' || c == '\n' || c == '\r' || c == '\t')) {
                return "\"text\":" + quoted(text);
            }
        } catch (CharacterCodingException error) {
            // Bytes, then.
        }
        return "\"base64\":" + quoted(Base64.getEncoder().encodeToString(bytes));
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
