package redrive;

import org.springframework.amqp.core.Message;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.context.annotation.Configuration;

/** Reads a queue and shows what a Spring listener gets of it. */
@Configuration
class Reading {
    @RabbitListener(queues = "${queue}")
    void on(Message message) {
        Lines.print(message);
    }
}
