package redrive;

import java.util.Map;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Rejects every message; the broker takes it to `QUEUE-dead` and writes its `x-death`. */
@Configuration
class Rejecting {
    @Bean
    Declarables places(@Value("${queue}") String queue) {
        return Connections.places(queue,
                Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", queue + "-dead"));
    }

    @RabbitListener(queues = "${queue}")
    void on(Message message) {
        Lines.print(message);
        throw new AmqpRejectAndDontRequeueException("the warehouse is closed");
    }
}
