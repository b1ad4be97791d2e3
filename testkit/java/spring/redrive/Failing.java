package redrive;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.util.backoff.FixedBackOff;

/** Fails with every record; after three attempts each goes to `TOPIC-dlt`. */
@Configuration
class Failing {
    @Bean
    DefaultErrorHandler handler(KafkaTemplate<byte[], byte[]> template, @Value("${bootstrap}") String bootstrap,
            @Value("${topic}") String topic, ConcurrentKafkaListenerContainerFactory<Object, Object> factory) {
        Connections.create(bootstrap, topic, null);
        Connections.create(bootstrap, topic + "-dlt", topic);
        var handler = new DefaultErrorHandler(new DeadLetterPublishingRecoverer(template), new FixedBackOff(50, 2));
        factory.setCommonErrorHandler(handler);
        return handler;
    }

    @KafkaListener(topics = "${topic}")
    void on(ConsumerRecord<byte[], byte[]> record) {
        Lines.print(record);
        throw new IllegalStateException("the warehouse is closed", new RuntimeException("until nine o'clock"));
    }
}
