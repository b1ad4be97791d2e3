//! Each writer's headers, made by hand after what it is known to write.

use redrive_core::dialect::{ForeignFailure, Writer};
use redrive_core::{Headers, Timestamp};

use crate::headers;

const AT: i64 = 1_782_896_400_123;

fn read(headers: &Headers) -> ForeignFailure {
    ForeignFailure::read(headers).expect("a foreign failure")
}

fn kinds(failure: &ForeignFailure) -> Vec<&str> {
    failure.chain.iter().map(|link| link.kind.as_str()).collect()
}

fn spring(prefix: &str) -> Headers {
    let mut headers = Headers::new();
    let mut push = |name: &str, value: &[u8]| headers.push(format!("kafka_{prefix}{name}"), value.to_vec());
    push("original-topic", b"orders");
    push("original-partition", &3_i32.to_be_bytes());
    push("original-offset", &42_i64.to_be_bytes());
    push("original-timestamp", &AT.to_be_bytes());
    push("original-timestamp-type", b"CreateTime");
    push("exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException");
    push("exception-cause-fqcn", b"java.lang.IllegalStateException");
    push("exception-message", b"Listener failed; closed");
    headers.push("kafka_dlt-original-consumer-group", "workers");
    headers
}

#[test]
fn spring_kafka_dead_letter() {
    let mut headers = spring("dlt-");
    headers.push("kafka_deliveryAttempt", 4_i32.to_be_bytes().to_vec());
    let failure = read(&headers);
    assert_eq!(failure.writer, Writer::SpringKafka);
    assert_eq!(failure.origin.name.as_deref(), Some("orders"));
    assert_eq!((failure.origin.partition, failure.origin.offset), (Some(3), Some(42)));
    assert_eq!(failure.origin.timestamp, Some(Timestamp::from_millis(AT)));
    assert_eq!(failure.origin.group.as_deref(), Some("workers"));
    assert_eq!(failure.attempts, Some(4));
    assert_eq!(
        kinds(&failure),
        [
            "org.springframework.kafka.listener.ListenerExecutionFailedException",
            "java.lang.IllegalStateException"
        ]
    );
    assert_eq!(failure.body_at(), None);
}

#[test]
fn spring_kafka_key_that_could_not_be_read() {
    let headers = headers(&[
        ("kafka_dlt-key-exception-fqcn", "org.example.DeserializationException"),
        ("kafka_dlt-key-exception-message", "no key"),
        ("kafka_dlt-exception-cause-fqcn", "org.example.DeserializationException"),
    ]);
    let failure = read(&headers);
    assert_eq!(kinds(&failure), ["org.example.DeserializationException"]);
    assert_eq!(failure.chain[0].message, "no key");
}

#[test]
fn spring_retry_topics_in_both_encodings_of_attempts() {
    let mut headers = spring("");
    headers.push("retry_topic-attempts", 300_i32.to_be_bytes().to_vec());
    headers.push("retry_topic-original-timestamp", AT.to_be_bytes()[2..].to_vec());
    headers.push("retry_topic-backoff-timestamp", (AT + 1_000).to_be_bytes()[2..].to_vec());
    let failure = read(&headers);
    assert_eq!(failure.writer, Writer::SpringKafkaRetry);
    assert_eq!(failure.attempts, Some(299), "the header tells the attempt to come");
    assert_eq!(failure.due_at, Some(Timestamp::from_millis(AT + 1_000)));
    assert_eq!(failure.origin.timestamp, Some(Timestamp::from_millis(AT)));
    assert_eq!(failure.origin.group.as_deref(), Some("workers"));

    headers.push("retry_topic-attempts", vec![200]);
    assert_eq!(read(&headers).attempts, Some(199), "the last value counts");
    for unusable in [vec![0, 0], vec![0], vec![1], vec![0xff; 4]] {
        headers.push("retry_topic-attempts", unusable);
        assert_eq!(read(&headers).attempts, None);
    }
}

#[test]
fn spring_deserializer_is_shown_and_not_decoded() {
    let mut alone = Headers::new();
    alone.push("springDeserializerExceptionValue", vec![0xac, 0xed, 0, 5, 1, 2, 3]);
    let failure = read(&alone);
    assert_eq!(failure.writer, Writer::SpringDeserializer);
    assert!(failure.serialized.value.is_some_and(|object| object.bytes == 7 && object.java));
    assert_eq!(failure.serialized.key, None);
    assert!(kinds(&failure)[0].ends_with(".DeserializationException"));

    let mut beside = spring("dlt-");
    beside.push("springDeserializerExceptionKey", "not java");
    let failure = read(&beside);
    assert_eq!(failure.writer, Writer::SpringKafka);
    assert!(failure.serialized.key.is_some_and(|object| object.bytes == 8 && !object.java));
}

fn cloud_stream() -> Headers {
    let mut headers = headers(&[
        ("x-original-topic", "orders"),
        ("x-original-timestamp-type", "CreateTime"),
        ("x-exception-fqcn", "org.springframework.messaging.MessageHandlingException"),
        ("x-exception-message", "error occurred"),
        ("x-exception-stacktrace", "a.B: error occurred\nCaused by: java.net.ConnectException: refused"),
    ]);
    headers.push("x-original-partition", 7_i32.to_be_bytes().to_vec());
    headers.push("x-original-offset", 42_i64.to_be_bytes().to_vec());
    headers.push("x-original-timestamp", AT.to_be_bytes().to_vec());
    headers
}

#[test]
fn spring_cloud_stream_binder() {
    let failure = read(&cloud_stream());
    assert_eq!(failure.writer, Writer::SpringCloudStream);
    assert_eq!(failure.origin.name.as_deref(), Some("orders"));
    assert_eq!((failure.origin.partition, failure.origin.offset), (Some(7), Some(42)));
    assert_eq!(failure.origin.timestamp, Some(Timestamp::from_millis(AT)));
    assert!(kinds(&failure).contains(&"java.net.ConnectException"));
}

#[test]
fn the_binders_origin_is_told_from_redrives() {
    // Redrive has retried the binder's message since: the place is Redrive's, the error is still the binder's.
    let mut headers = cloud_stream();
    for (name, text) in [("x-original-partition", "1234"), ("x-original-offset", "12345678")] {
        headers.set(name, text);
    }
    headers.set("x-original-timestamp", AT.to_string());
    let failure = read(&headers);
    assert_eq!(failure.writer, Writer::SpringCloudStream);
    assert_eq!(failure.origin.name, None);
    assert_eq!(failure.origin.partition, None);
    assert!(!failure.chain.is_empty());
    // Without the binder's error there is nothing foreign left.
    for name in ["x-exception-fqcn", "x-exception-message", "x-exception-stacktrace"] {
        headers.remove(name);
    }
    assert_eq!(ForeignFailure::read(&headers), None);
}

#[test]
fn kafka_connect() {
    let failure = read(&headers(&[
        ("__connect.errors.topic", "orders"),
        ("__connect.errors.partition", "3"),
        ("__connect.errors.offset", "42"),
        ("__connect.errors.connector.name", "orders-sink"),
        ("__connect.errors.task.id", "0"),
        ("__connect.errors.stage", "VALUE_CONVERTER"),
        ("__connect.errors.class.name", "org.apache.kafka.connect.json.JsonConverter"),
        ("__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException"),
        ("__connect.errors.exception.message", "Converting byte[] failed"),
        (
            "__connect.errors.exception.stacktrace",
            "org.apache.kafka.connect.errors.DataException: Converting byte[] failed\n\tat a.B.c(B.java)\n\
             Caused by: org.apache.kafka.common.errors.SerializationException: bad",
        ),
    ]));
    assert_eq!(failure.writer, Writer::KafkaConnect);
    assert_eq!((failure.origin.partition, failure.origin.offset), (Some(3), Some(42)));
    assert_eq!(
        failure.component.as_deref(),
        Some("orders-sink, task 0, VALUE_CONVERTER, org.apache.kafka.connect.json.JsonConverter")
    );
    assert_eq!(kinds(&failure).len(), 2);
    assert!(failure.stack_trace.is_some());
}

#[test]
fn kafka_streams() {
    let failure = read(&headers(&[
        ("__streams.errors.exception", "java.lang.ArithmeticException"),
        ("__streams.errors.message", "/ by zero"),
        ("__streams.errors.stacktrace", "java.lang.ArithmeticException: / by zero\n\tat a.B.c(B.java)"),
        ("__streams.errors.topic", "orders"),
        ("__streams.errors.partition", "0"),
        ("__streams.errors.offset", "1"),
    ]));
    assert_eq!(failure.writer, Writer::KafkaStreams);
    assert_eq!(kinds(&failure), ["java.lang.ArithmeticException"]);
    assert_eq!(failure.chain[0].message, "/ by zero");
}

#[test]
fn kafka_share_group_says_where_its_body_is() {
    let mut headers = headers(&[
        ("__dlq.errors.topic", "orders"),
        ("__dlq.errors.partition", "3"),
        ("__dlq.errors.offset", "42"),
        ("__dlq.errors.group", "pickers"),
        ("__dlq.errors.delivery.count", "5"),
        ("__dlq.errors.message", "The delivery count limit was reached"),
    ]);
    let failure = read(&headers);
    assert_eq!(failure.writer, Writer::KafkaShareGroup);
    assert_eq!(failure.attempts, Some(5));
    assert_eq!(failure.origin.group.as_deref(), Some("pickers"));
    assert_eq!(failure.body_at(), Some(("orders", 3, 42)));
    headers.set("__dlq.errors.offset", "-1");
    assert_eq!(read(&headers).body_at(), None);
}

#[test]
fn spring_amqp() {
    let failure = read(&headers(&[
        ("x-exception-message", "closed"),
        ("x-exception-stacktrace", "java.lang.IllegalStateException: closed\n\tat a.B.c(B.java)"),
        ("x-original-exchange", "shop"),
        ("x-original-routingKey", "orders.new"),
        ("retry-count", "2"),
    ]));
    assert_eq!(failure.writer, Writer::SpringAmqp);
    assert_eq!(failure.origin.exchange.as_deref(), Some("shop"));
    assert_eq!(failure.origin.routing_key.as_deref(), Some("orders.new"));
    assert_eq!(failure.attempts, Some(2));
    assert_eq!(kinds(&failure), ["java.lang.IllegalStateException"]);
}

#[test]
fn nservicebus() {
    let failure = read(&headers(&[
        ("NServiceBus.FailedQ", "Sales@HOST1"),
        ("NServiceBus.TimeOfFailure", "2026-07-01 09:00:00:123456 Z"),
        ("NServiceBus.ExceptionInfo.ExceptionType", "System.Exception"),
        ("NServiceBus.ExceptionInfo.InnerExceptionType", "System.TimeoutException"),
        ("NServiceBus.ExceptionInfo.Message", "boom"),
        ("NServiceBus.ExceptionInfo.StackTrace", "System.Exception: boom\r\n   at Sales.Handle()"),
        ("NServiceBus.ProcessingEndpoint", "Sales"),
        ("NServiceBus.ProcessingMachine", "HOST1"),
        ("NServiceBus.EnclosedMessageTypes", "Shop.OrderPlaced, Shop, Version=1.0.0.0; Shop.IEvent, Shop"),
    ]));
    assert_eq!(failure.writer, Writer::NServiceBus);
    assert_eq!(failure.origin.name.as_deref(), Some("Sales@HOST1"));
    assert_eq!(failure.failed_at, Some(Timestamp::from_millis(AT)));
    assert_eq!(kinds(&failure), ["System.Exception", "System.TimeoutException"]);
    assert_eq!(failure.component.as_deref(), Some("Sales on HOST1"));
    assert_eq!(failure.message_type.as_deref(), Some("Shop.OrderPlaced"));
}

#[test]
fn masstransit() {
    let failure = read(&headers(&[
        ("MT-Reason", "fault"),
        ("MT-Fault-ExceptionType", "System.InvalidOperationException"),
        ("MT-Fault-InputAddress", "rabbitmq://localhost/shop/submit-order?durable=true"),
        ("MT-Fault-Message", "not now"),
        ("MT-Fault-MessageType", "urn:message:Shop:SubmitOrder"),
        ("MT-Fault-ConsumerType", "Shop.SubmitOrderConsumer"),
        ("MT-Fault-Timestamp", "2026-07-01T09:00:00.1230000Z"),
        ("MT-Fault-StackTrace", "   at Shop.SubmitOrderConsumer.Consume()"),
        ("MT-Fault-RetryCount", "3"),
        ("MT-Redelivery-Count", "2"),
    ]));
    assert_eq!(failure.writer, Writer::MassTransit);
    assert_eq!(failure.origin.name.as_deref(), Some("submit-order"));
    assert_eq!(failure.attempts, Some(6));
    assert_eq!(failure.failed_at, Some(Timestamp::from_millis(AT)));
    assert_eq!(kinds(&failure), ["System.InvalidOperationException"]);
    assert_eq!(failure.message_type.as_deref(), Some("urn:message:Shop:SubmitOrder"));
}

#[test]
fn wolverine_needs_more_than_a_word() {
    let mut headers = headers(&[
        ("exception-type", "System.DivideByZeroException"),
        ("exception-message", "Attempted to divide by zero."),
        ("attempts", "3"),
    ]);
    assert_eq!(ForeignFailure::read(&headers), None);
    headers.push("failed-at", AT.to_string());
    headers.push("original-destination", "kafka://topic/orders");
    headers.push("original-partition", "3");
    headers.push("original-offset", "42");
    let failure = read(&headers);
    assert_eq!(failure.writer, Writer::Wolverine);
    assert_eq!(failure.origin.name.as_deref(), Some("orders"));
    assert_eq!((failure.origin.partition, failure.origin.offset), (Some(3), Some(42)));
    assert_eq!(failure.failed_at, Some(Timestamp::from_millis(AT)));
    assert_eq!(failure.attempts, Some(3));
}

#[test]
fn of_several_writers_the_last_counts() {
    let mut headers = spring("dlt-");
    headers.push("__connect.errors.topic", "orders-dlt");
    assert_eq!(read(&headers).writer, Writer::KafkaConnect);
    headers.push("kafka_dlt-original-topic", "orders-again");
    let failure = read(&headers);
    assert_eq!(failure.writer, Writer::SpringKafka);
    assert_eq!(failure.origin.name.as_deref(), Some("orders-again"));
    // One that turns out to be unreadable gives way.
    headers.push("__streams.errors.topic", vec![0xff]);
    assert_eq!(read(&headers).writer, Writer::SpringKafka);
}

#[test]
fn nothing_foreign_is_nothing() {
    let other = headers(&[("type", "OrderPlaced"), ("attempts", "3"), ("x-original-topic", "orders")]);
    assert_eq!(ForeignFailure::read(&other), None);
    assert_eq!(ForeignFailure::read(&Headers::new()), None);
}
