package redrive;

import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.LogAndContinueExceptionHandler;
import org.apache.kafka.streams.errors.LogAndContinueProcessingExceptionHandler;

/** Divides by the numbers of a topic: what is no number and what is zero become dead letters. */
final class Streams {
    static void run(String bootstrap, String topic, Path folder) throws Exception {
        Writers.create(bootstrap, topic);
        Writers.create(bootstrap, topic + "-dlq");
        var settings = new Properties();
        settings.put("application.id", "divider");
        settings.put("bootstrap.servers", bootstrap);
        settings.put("state.dir", folder.toString());
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.IntegerSerde.class);
        settings.put("auto.offset.reset", "earliest");
        settings.put("deserialization.exception.handler", LogAndContinueExceptionHandler.class);
        settings.put("processing.exception.handler", LogAndContinueProcessingExceptionHandler.class);
        settings.put("errors.dead.letter.queue.topic.name", topic + "-dlq");
        var builder = new StreamsBuilder();
        builder.<String, Integer>stream(topic).mapValues(number -> 1_000 / number).foreach((key, value) -> { });
        new KafkaStreams(builder.build(), settings).start();
        Writers.ready();
        Writers.untilTheEndOfInput();
    }
}
