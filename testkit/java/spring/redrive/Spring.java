package redrive;

import java.util.Map;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.env.MapPropertySource;

/**
 * A small real Spring Kafka program: `Spring MODE BOOTSTRAP TOPIC GROUP [RECORDS]`.
 *
 * It writes one JSON object a line on standard output: {"ready":true} once its listener runs, then every record that
 * the listener is given, or how long so many of them took. It ends with its standard input, so that it never outlives the test that started it.
 */
public final class Spring {
    public static void main(String[] arguments) throws Exception {
        String mode = arguments[0];
        Class<?> settings = switch (mode) {
            case "read" -> Reading.class;
            case "fail" -> Failing.class;
            case "retry" -> Retrying.class;
            case "deserialize" -> Deserializing.class;
            case "count" -> Counting.class;
            default -> throw new IllegalArgumentException("unknown mode " + mode);
        };
        var context = new AnnotationConfigApplicationContext();
        context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("arguments", Map.of(
                "bootstrap", arguments[1], "topic", arguments[2], "group", arguments[3],
                "records", arguments.length > 4 ? arguments[4] : "0")));
        context.register(Connections.class, settings);
        context.refresh();
        Lines.print("{\"ready\":true}");
        while (System.in.read() >= 0) {
            // Only the end of it means anything.
        }
        // A listener in the middle of a back-off would keep an orderly stop waiting.
        Runtime.getRuntime().halt(0);
    }
}
