//! `cargo xtask bench core`: what a decision, a header, a fact and a fingerprint cost.

mod measure;
mod table;

use std::hint::black_box;
use std::time::Duration;

use measure::measure;
use redrive_core::classify::Subject;
use redrive_core::fingerprint::Fingerprint;
use redrive_core::headers::{self, Spelling, Trail};
use redrive_core::{
    Class, FactSources, Failure, Headers, History, Policy, PolicySpec, Reason, SplitMix64, Timestamp, decide,
};
use table::{Aim, Table};

const NOW: Timestamp = Timestamp::from_millis(1_782_896_400_000);

fn main() {
    let mut table = Table::default();
    decisions(&mut table);
    header_work(&mut table);
    facts(&mut table);
    fingerprints(&mut table);
    println!("{table}");
}

fn decisions(table: &mut Table) {
    let aim = Aim { nanos: Some(300.0), allocations: Some(0.0) };
    let mut rng = SplitMix64::new(1);
    let ladder = Policy::default();
    let delayed = History { attempts: 3, delayed: 1, ..History::first() };
    let spent = History { attempts: 6, delayed: 4, ..History::first() };
    let status = Failure::from_message("503 Service Unavailable").with_status(503);
    let thrown = Failure::from_message("Read timed out").with_type("java.net.SocketTimeoutException");
    let unknown = Failure::from_message("something nobody foresaw").with_type("com.shop.Surprise");

    let mut row = |name: &str, policy: &Policy, history: &History, failure: &Failure| {
        let subject = Subject { message_type: Some("OrderCreated"), ..Subject::default() };
        let measured = measure(|| {
            decide(
                black_box(policy),
                &subject,
                black_box(history),
                black_box(failure),
                black_box(NOW),
                &mut rng,
            )
        });
        table.add(name, measured, aim);
    };
    row("decide: delayed retry after a 503", &ladder, &delayed, &status);
    row("decide: retry in place after a 503", &ladder, &History::first(), &status);
    row("decide: dead letter after a 503", &ladder, &spent, &status);
    row("decide: an error by its type", &ladder, &delayed, &thrown);
    row("decide: an error that no rule knows", &ladder, &delayed, &unknown);
    let rules: Vec<_> = (0..20)
        .map(|i| serde_json::json!({ "when": { "status": 409, "body": format!("text {i}") }, "class": "CONTENTION" }))
        .collect();
    let spec: Result<PolicySpec, _> =
        serde_json::from_value(serde_json::json!({ "retry": "10s, 1m x5 jitter full", "rules": rules }));
    if let Some(policy) = spec.ok().and_then(|spec| spec.build().ok()) {
        row("decide: behind 20 rules of one's own", &policy, &delayed, &status);
    }
}

fn trail() -> Trail {
    Trail {
        attempt: 3,
        max: Some(8),
        process_after: Some(NOW + Duration::from_secs(60)),
        origin: headers::Origin {
            topic: Some("orders".into()),
            partition: Some(3),
            offset: Some(918_273),
            timestamp: Some(NOW),
        },
        first_failure_at: Some(NOW),
        last_failure_at: Some(NOW),
        error_type: Some("java.net.SocketTimeoutException".into()),
        error_message: Some("Read timed out".into()),
        class: Some(Class::Transient),
        reason: Some(Reason::DOWNSTREAM_TIMEOUT),
        delay_counter: 2,
        delay_total: Duration::from_secs(70),
        entry_id: Some("0190b1f0-8f2a-7c3e-9a51-3d1f6c1f2b77".into()),
        ..Trail::default()
    }
}

fn header_work(table: &mut Table) {
    let written = trail();
    let mut foreign = Headers::default();
    for (name, value) in
        [("content-type", "application/json"), ("traceparent", "00-4bf92f35-00f067aa-01"), ("tenant", "acme")]
    {
        foreign.set(name, value);
    }
    let mut carried = foreign.clone();
    headers::encode(&written, &mut carried, Spelling::default());

    let decoding = measure(|| headers::decode(black_box(&carried), Spelling::default()));
    table.add(
        &format!("headers: decode {} of {}", carried.len() - foreign.len(), carried.len()),
        decoding,
        Aim { nanos: Some(1_000.0), ..Aim::default() },
    );
    table.add(
        "headers: decode a first delivery",
        measure(|| headers::decode(black_box(&foreign), Spelling::default())),
        Aim::default(),
    );
    let encoding = measure(|| {
        let mut target = foreign.clone();
        headers::encode(black_box(&written), &mut target, Spelling::default());
        target
    });
    table.add("headers: encode", encoding, Aim::default());
}

fn facts(table: &mut Table) {
    let body = serde_json::json!({
        "order": { "id": "order-771", "lines": (0..20).map(|i| serde_json::json!({ "sku": i, "quantity": 1 })).collect::<Vec<_>>() },
        "customer": { "email": "someone@example.com" },
    })
    .to_string();
    let mut headers = Headers::default();
    headers.set("type", "OrderCreated");
    headers.set("x-correlation-id", "corr-214");
    let by_header = FactSources::default();
    table.add(
        "facts: from headers, body untouched",
        measure(|| by_header.find(black_box(&headers), Some(body.as_bytes()))),
        Aim::default(),
    );
    let by_body = FactSources { entity: "json:/order/id".parse().ok(), ..FactSources::default() };
    table.add(
        &format!("facts: one of {} bytes of JSON", body.len()),
        measure(|| by_body.find(black_box(&headers), Some(body.as_bytes()))),
        Aim::default(),
    );
}

fn fingerprints(table: &mut Table) {
    let text = "order 771 of customer 'acme' failed at https://shop.example/orders/771: timeout after 3000 ms (id 0190b1f0-8f2a-7c3e-9a51-3d1f6c1f2b77)";
    let measured = measure(|| {
        Fingerprint::of(
            Class::Transient,
            &Reason::DOWNSTREAM_TIMEOUT,
            Some("OrderCreated"),
            Some("java.net.SocketTimeoutException"),
            black_box(text),
        )
    });
    table.add("fingerprint", measured, Aim::default());
}
