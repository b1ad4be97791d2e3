package redrive;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.IntegerDeserializer;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.support.serializer.DelegatingByTypeSerializer;
import org.springframework.kafka.support.serializer.ErrorHandlingDeserializer;
import org.springframework.util.backoff.FixedBackOff;

/** Expects numbers as keys and values; what is none goes to `TOPIC-dlt`, with the serialized error in its headers. */
@Configuration
class Deserializing {
    @Bean
    ConcurrentKafkaListenerContainerFactory<Object, Object> numbers(Connections connections,
            @Value("${bootstrap}") String bootstrap, @Value("${topic}") String topic) {
        Connections.create(bootstrap, topic, null);
        Connections.create(bootstrap, topic + "-dlt", topic);
        var factory = Connections.factory(connections.settings(Map.of(
                ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ErrorHandlingDeserializer.class,
                ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ErrorHandlingDeserializer.class,
                ErrorHandlingDeserializer.KEY_DESERIALIZER_CLASS, IntegerDeserializer.class,
                ErrorHandlingDeserializer.VALUE_DESERIALIZER_CLASS, IntegerDeserializer.class)));
        // Of a dead letter one half could be read and is a number again; the other is still bytes.
        var serializer = new DelegatingByTypeSerializer(
                Map.of(byte[].class, new ByteArraySerializer(), Integer.class, new IntegerSerializer()));
        var template = new KafkaTemplate<>(new DefaultKafkaProducerFactory<Object, Object>(
                Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap), serializer, serializer));
        var recoverer = new DeadLetterPublishingRecoverer(template);
        recoverer.setRetainExceptionHeader(true);
        factory.setCommonErrorHandler(new DefaultErrorHandler(recoverer, new FixedBackOff(0, 0)));
        return factory;
    }

    @KafkaListener(topics = "${topic}", containerFactory = "numbers")
    void on(ConsumerRecord<Integer, Integer> record) {
        Lines.print(record);
    }
}
