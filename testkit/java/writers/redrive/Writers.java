package redrive;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.errors.TopicExistsException;

/**
 * The programs whose dead letters are the samples, and what is needed around them:
 * `Writers connect|streams BOOTSTRAP TOPIC FOLDER`, `Writers produce BOOTSTRAP TOPIC KEY VALUE`,
 * `Writers capture BOOTSTRAP TOPIC COUNT`.
 *
 * The first two say {"ready":true} once their topics are there, and end with their standard input.
 */
public final class Writers {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[1];
        String topic = arguments[2];
        switch (arguments[0]) {
            case "connect" -> Connect.run(bootstrap, topic, Path.of(arguments[3]));
            case "streams" -> Streams.run(bootstrap, topic, Path.of(arguments[3]));
            case "produce" -> Records.produce(bootstrap, topic, arguments[3], arguments[4]);
            case "capture" -> Records.capture(bootstrap, topic, Integer.parseInt(arguments[3]));
            default -> throw new IllegalArgumentException("unknown mode " + arguments[0]);
        }
    }

    static void create(String bootstrap, String topic) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw error;
            }
        }
    }

    static void ready() {
        System.out.println("{\"ready\":true}");
        System.out.flush();
    }

    static void untilTheEndOfInput() throws Exception {
        while (System.in.read() >= 0) {
            // Only the end of it means anything.
        }
        Runtime.getRuntime().halt(0);
    }
}
