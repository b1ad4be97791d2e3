package redrive;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.KafkaListener;

/** Reads a topic and shows what a Spring listener gets of it. */
@Configuration
class Reading {
    @KafkaListener(topics = "${topic}")
    void on(ConsumerRecord<byte[], byte[]> record) {
        Lines.print(record);
    }
}
