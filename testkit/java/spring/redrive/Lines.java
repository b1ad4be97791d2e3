package redrive;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;

/** Records as JSON, one a line. */
final class Lines {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    static synchronized void print(String line) {
        OUT.println(line);
    }

    /** Bytes that could not be deserialized are gone by now; they show as null. */
    static void print(ConsumerRecord<?, ?> record) {
        List<String> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add("{\"name\":" + quoted(header.key()) + ",\"text\":" + text(header.value())
                    + ",\"base64\":" + base64(header.value()) + "}");
        }
        print("{\"topic\":" + quoted(record.topic()) + ",\"partition\":" + record.partition() + ",\"offset\":"
                + record.offset() + ",\"timestamp\":" + record.timestamp() + ",\"key\":" + base64(record.key())
                + ",\"value\":" + base64(record.value()) + ",\"headers\":[" + String.join(",", headers) + "]}");
    }

    private static String base64(Object value) {
        return value instanceof byte[] bytes ? quoted(Base64.getEncoder().encodeToString(bytes)) : "null";
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "null" : quoted(new String(bytes, StandardCharsets.UTF_8));
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
