package redrive;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;

/** What every mode needs: bytes in, bytes out, and topics that are there. */
@Configuration
@EnableKafka
class Connections {
    @Value("${bootstrap}")
    String bootstrap;
    @Value("${group}")
    String group;

    @Bean
    KafkaAdmin admin() {
        return new KafkaAdmin(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap));
    }

    @Bean
    KafkaTemplate<byte[], byte[]> template() {
        return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(
                Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap),
                new ByteArraySerializer(), new ByteArraySerializer()));
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<Object, Object> kafkaListenerContainerFactory() {
        return factory(settings(Map.of()));
    }

    Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(ConsumerConfig.GROUP_ID_CONFIG, group);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        settings.put(ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        settings.put(ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, ByteArrayDeserializer.class);
        // A topic that is created after the listener has started is found soon.
        settings.put(ConsumerConfig.METADATA_MAX_AGE_CONFIG, 500);
        settings.putAll(more);
        return settings;
    }

    static ConcurrentKafkaListenerContainerFactory<Object, Object> factory(Map<String, Object> settings) {
        var factory = new ConcurrentKafkaListenerContainerFactory<Object, Object>();
        factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(settings));
        return factory;
    }

    /** Creates a topic with as many partitions as another one has, or with one. */
    static void create(String bootstrap, String topic, String like) {
        try (Admin admin = Admin.create(Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap))) {
            int partitions = 1;
            if (like != null) {
                partitions = admin.describeTopics(java.util.List.of(like)).allTopicNames().get().get(like)
                        .partitions().size();
            }
            admin.createTopics(java.util.List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        } catch (ExecutionException error) {
            if (!(error.getCause() instanceof TopicExistsException)) {
                throw new IllegalStateException(error);
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
