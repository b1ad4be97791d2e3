package redrive;

import java.util.Map;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.core.env.MapPropertySource;

/**
 * A small real Spring AMQP program: `SpringAmqp MODE ADDRESS QUEUE`, or `SpringAmqp send ADDRESS EXCHANGE KEY BODY`.
 *
 * It writes one JSON object a line on standard output: {"ready":true} once its listener runs, then every message that
 * the listener is given. It ends with its standard input, so that it never outlives the test that started it.
 */
public final class SpringAmqp {
    public static void main(String[] arguments) throws Exception {
        String mode = arguments[0];
        if (mode.equals("send")) {
            Sending.send(arguments[1], arguments[2], arguments[3], arguments[4]);
            return;
        }
        Class<?> settings = switch (mode) {
            case "read" -> Reading.class;
            case "republish" -> Republishing.class;
            case "reject" -> Rejecting.class;
            default -> throw new IllegalArgumentException("unknown mode " + mode);
        };
        var context = new AnnotationConfigApplicationContext();
        context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("arguments", Map.of(
                "address", arguments[1], "queue", arguments[2])));
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
