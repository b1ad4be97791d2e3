//! Files that are new, old, foreign, damaged, full.

use redrive_engine::port::{Broker, Outcome, PortError};
use redrive_sqlite::{OpenError, Options, Store};

use crate::fixture::{
    Fixture, ack, assert_sound, failed, ids, publish, settle_one, settlement, subscribe, take, text,
};
use crate::settling::rusqlite_of;

fn refused(fixture: &Fixture) -> OpenError {
    Store::open(fixture.path(), fixture.options.clone()).expect_err("it was opened")
}

#[tokio::test]
async fn a_newer_file_is_refused_by_name() {
    let fixture = Fixture::new();
    drop(fixture.open());
    rusqlite_of(&fixture).pragma_update(None, "user_version", 7_000).unwrap();
    let error = refused(&fixture);
    assert!(matches!(error, OpenError::Newer { found: 7_000, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("was written by a newer redrive: schema 7000, this one knows "), "{text}");
}

#[tokio::test]
async fn somebody_elses_database_is_left_alone() {
    let fixture = Fixture::new();
    rusqlite_of(&fixture).execute_batch("CREATE TABLE theirs (x)").unwrap();
    assert!(matches!(refused(&fixture), OpenError::Foreign { .. }));
}

#[tokio::test]
async fn a_damaged_header_is_named() {
    let fixture = Fixture::new();
    {
        let store = fixture.open();
        publish(&store, "orders", &["a"]).await;
    }
    let mut bytes = std::fs::read(fixture.path()).unwrap();
    bytes[..16].copy_from_slice(b"not a database!!");
    std::fs::write(fixture.path(), bytes).unwrap();
    let error = refused(&fixture);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("put a backup in its place"), "{error}");
}

#[tokio::test]
async fn one_file_has_one_opener() {
    let fixture = Fixture::new();
    let store = fixture.open();
    let error = refused(&fixture);
    let pid = std::process::id();
    assert!(error.to_string().contains(&format!("is in use by process {pid}")), "{error}");
    drop(store);
    drop(fixture.open());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = fixture.folder.path().join("redrive.db.d");
        assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[tokio::test]
async fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let fixture = Fixture::new();
    let options = Options { file_limit: Some(600 << 10), ..fixture.options.clone() };
    let store = Store::open(fixture.path(), options).unwrap();
    let mut source = subscribe(&store, "orders").await;
    publish(&store, "orders", &["first"]).await;
    let mut accepted = 0;
    let full = loop {
        let mut message = text(&format!("m{accepted}"));
        message.body = Some(vec![1; 20_000].into());
        match store.publish("orders", vec![message]).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 1_000, "the limit does not hold");
    };
    assert!(matches!(full, PortError::Unavailable(_)), "{full:?}");
    assert!(full.to_string().contains("is full"), "{full}");
    let taken = take(&mut source, accepted + 1).await;
    assert_eq!(taken[0].message.id.as_str(), "first");
    for delivery in &taken {
        ack(&store, delivery).await;
    }
    publish(&store, "orders", &["after"]).await;
    assert_eq!(ids(&take(&mut source, 1).await), ["after"]);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_settlement_on_a_full_disk_can_be_given_again() {
    let fixture = Fixture::new();
    {
        let store = fixture.open();
        publish(&store, "orders", &["a"]).await;
    }
    let size = std::fs::metadata(fixture.path()).unwrap().len();
    let error = "x".repeat(200_000);
    let store =
        Store::open(fixture.path(), Options { file_limit: Some(size), ..fixture.options.clone() }).unwrap();
    let mut source = subscribe(&store, "orders").await;
    let delivery = take(&mut source, 1).await.remove(0);
    let large = failed(&delivery, Outcome::Park, &error, fixture.now());
    let answer = store.settle(std::slice::from_ref(&large)).await.remove(0);
    assert!(matches!(answer, Err(PortError::Unavailable(_))), "{answer:?}");
    drop((source, store));

    let store = fixture.open();
    let mut source = subscribe(&store, "orders").await;
    let again = take(&mut source, 1).await.remove(0);
    settle_one(&store, settlement(&again, Outcome::Ack)).await;
    assert_sound(&store).await;
}
