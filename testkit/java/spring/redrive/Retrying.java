package redrive;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.BackOff;
import org.springframework.kafka.annotation.EnableKafkaRetryTopic;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.stereotype.Component;

/** Fails with every record; it goes through `TOPIC-retry` twice and then to `TOPIC-dlt`. */
@Configuration
@EnableKafkaRetryTopic
class Retrying {
    @Bean
    TaskScheduler scheduler() {
        return new ThreadPoolTaskScheduler();
    }

    @Bean
    Listener listener(@Value("${bootstrap}") String bootstrap, @Value("${topic}") String topic) {
        Connections.create(bootstrap, topic, null);
        return new Listener();
    }

    @Component
    static class Listener {
        // Without a handler of its own, Spring reads the dead-letter topic and only logs.
        @RetryableTopic(attempts = "3", backOff = @BackOff(delay = 200), kafkaTemplate = "template",
                autoStartDltHandler = "false")
        @KafkaListener(topics = "${topic}")
        void on(ConsumerRecord<byte[], byte[]> record) {
            Lines.print(record);
            throw new IllegalStateException("the warehouse is closed", new RuntimeException("until nine o'clock"));
        }
    }
}
