package redrive;

import java.util.Map;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.rabbit.annotation.RabbitListener;
import org.springframework.amqp.rabbit.config.RetryInterceptorBuilder;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.retry.RepublishMessageRecoverer;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Fails with every message; after three attempts Spring publishes it to `QUEUE-dead`, with the exception in its headers. */
@Configuration
class Republishing {
    @Bean
    Declarables places(@Value("${queue}") String queue) {
        return Connections.places(queue, Map.of());
    }

    @Bean
    RepublishMessageRecoverer recoverer(RabbitTemplate template, SimpleRabbitListenerContainerFactory factory,
            @Value("${queue}") String queue) {
        var recoverer = new RepublishMessageRecoverer(template, "", queue + "-dead");
        factory.setAdviceChain(RetryInterceptorBuilder.stateless().maxRetries(2).backOffOptions(50, 1, 50)
                .recoverer(recoverer).build());
        return recoverer;
    }

    @RabbitListener(queues = "${queue}")
    void on(Message message) {
        Lines.print(message);
        throw new IllegalStateException("the warehouse is closed", new RuntimeException("until nine o'clock"));
    }
}
