package redrive;

import java.net.URI;
import java.util.Map;
import org.springframework.amqp.core.AmqpAdmin;
import org.springframework.amqp.core.Binding;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Declarables;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.annotation.EnableRabbit;
import org.springframework.amqp.rabbit.config.SimpleRabbitListenerContainerFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** What every mode needs: a connection, a listener's container, and queues that are there. */
@Configuration
@EnableRabbit
class Connections {
    @Bean
    CachingConnectionFactory server(@Value("${address}") String address) {
        return new CachingConnectionFactory(URI.create(address));
    }

    @Bean
    AmqpAdmin admin(CachingConnectionFactory server) {
        return new RabbitAdmin(server);
    }

    @Bean
    RabbitTemplate template(CachingConnectionFactory server) {
        return new RabbitTemplate(server);
    }

    @Bean
    SimpleRabbitListenerContainerFactory rabbitListenerContainerFactory(CachingConnectionFactory server) {
        var factory = new SimpleRabbitListenerContainerFactory();
        factory.setConnectionFactory(server);
        return factory;
    }

    /**
     * A queue with these arguments, its dead-letter queue `QUEUE-dead`, and an exchange `QUEUE-in` that feeds it, so that
     * a message has an original exchange and routing key.
     */
    static Declarables places(String queue, Map<String, Object> arguments) {
        Queue source = QueueBuilder.durable(queue).quorum().withArguments(arguments).build();
        Queue dead = QueueBuilder.durable(queue + "-dead").quorum().build();
        var exchange = new TopicExchange(queue + "-in");
        Binding binding = BindingBuilder.bind(source).to(exchange).with("order.#");
        return new Declarables(source, dead, exchange, binding);
    }
}
