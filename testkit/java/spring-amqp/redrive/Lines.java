package redrive;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.List;
import java.util.Map;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageProperties;

/** Messages as JSON, one a line. */
final class Lines {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    static synchronized void print(String line) {
        OUT.println(line);
    }

    static void print(Message message) {
        MessageProperties properties = message.getMessageProperties();
        List<String> headers = new ArrayList<>();
        properties.getHeaders().forEach((name, value) -> headers.add("{\"name\":" + quoted(name) + ",\"class\":"
                + (value == null ? "null" : quoted(value.getClass().getName())) + ",\"text\":" + text(value) + "}"));
        print("{\"queue\":" + quoted(properties.getConsumerQueue()) + ",\"exchange\":"
                + quoted(properties.getReceivedExchange()) + ",\"routing_key\":"
                + quoted(properties.getReceivedRoutingKey()) + ",\"message_id\":" + quoted(properties.getMessageId())
                + ",\"content_type\":" + quoted(properties.getContentType()) + ",\"body\":"
                + quoted(Base64.getEncoder().encodeToString(message.getBody())) + ",\"headers\":["
                + String.join(",", headers) + "]}");
    }

    /** A header as text; what is a list or a table as JSON. */
    private static String text(Object value) {
        if (value == null) {
            return "null";
        }
        boolean nested = value instanceof List || value instanceof Map;
        return quoted(nested ? json(value) : value.toString());
    }

    private static String json(Object value) {
        if (value instanceof List<?> list) {
            return "[" + String.join(",", list.stream().map(Lines::json).toList()) + "]";
        }
        if (value instanceof Map<?, ?> map) {
            return "{" + String.join(",", map.entrySet().stream()
                    .map(entry -> quoted(entry.getKey().toString()) + ":" + json(entry.getValue())).toList()) + "}";
        }
        if (value instanceof Number || value instanceof Boolean) {
            return value.toString();
        }
        if (value instanceof Date date) {
            return quoted(date.toInstant().toString());
        }
        return value == null ? "null" : quoted(value.toString());
    }

    private static String quoted(String text) {
        if (text == null) {
            return "null";
        }
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
