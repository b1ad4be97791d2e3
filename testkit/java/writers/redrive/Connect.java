package redrive;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.connect.cli.ConnectStandalone;

/** A sink that takes JSON with a schema and casts it to a number: bad JSON and bad numbers become dead letters. */
final class Connect {
    static void run(String bootstrap, String topic, Path folder) throws Exception {
        Writers.create(bootstrap, topic);
        Writers.create(bootstrap, topic + "-dlq");
        Path worker = Files.writeString(folder.resolve("worker.properties"), String.join("\n",
                "bootstrap.servers=" + bootstrap,
                "listeners=http://127.0.0.1:0",
                "key.converter=org.apache.kafka.connect.storage.StringConverter",
                "value.converter=org.apache.kafka.connect.json.JsonConverter",
                "offset.storage.file.filename=" + folder.resolve("offsets")));
        Path connector = Files.writeString(folder.resolve("connector.properties"), String.join("\n",
                "name=orders-sink",
                "connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector",
                "tasks.max=1",
                "topics=" + topic,
                "file=" + folder.resolve("sink"),
                "transforms=number",
                "transforms.number.type=org.apache.kafka.connect.transforms.Cast$Value",
                "transforms.number.spec=int32",
                "errors.tolerance=all",
                "errors.deadletterqueue.topic.name=" + topic + "-dlq",
                "errors.deadletterqueue.topic.replication.factor=1",
                "errors.deadletterqueue.context.headers.enable=true"));
        var waiting = new Thread(() -> {
            try {
                Writers.untilTheEndOfInput();
            } catch (Exception error) {
                Runtime.getRuntime().halt(1);
            }
        });
        waiting.start();
        Writers.ready();
        ConnectStandalone.main(new String[] {worker.toString(), connector.toString()});
    }
}
