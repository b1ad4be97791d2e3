package redrive;

import java.net.URI;
import java.nio.charset.StandardCharsets;
import org.springframework.amqp.core.MessageBuilder;
import org.springframework.amqp.core.MessageProperties;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitTemplate;

/** Sends one message of JSON. */
final class Sending {
    static void send(String address, String exchange, String key, String body) {
        var server = new CachingConnectionFactory(URI.create(address));
        var message = MessageBuilder.withBody(body.getBytes(StandardCharsets.UTF_8))
                .setContentType(MessageProperties.CONTENT_TYPE_JSON).setMessageId("order-1")
                .setHeader("type", "OrderPlaced").build();
        new RabbitTemplate(server).send(exchange, key, message);
        server.destroy();
    }
}
