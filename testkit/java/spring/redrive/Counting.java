package redrive;

import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.KafkaListener;

/** Does nothing with each record but count it, with two consumers, and says how long so many of them took. */
@Configuration
class Counting {
    private final AtomicLong count = new AtomicLong();
    private volatile long began;

    @Value("${records}")
    long records;

    @KafkaListener(topics = "${topic}", concurrency = "2")
    void on(ConsumerRecord<byte[], byte[]> record) {
        long number = count.incrementAndGet();
        if (number == 1) {
            began = System.nanoTime();
        }
        if (number == records) {
            Lines.print("{\"nanos\":" + (System.nanoTime() - began) + "}");
        }
    }
}
