//! PostgreSQL, as the tests get it: started, used, stopped, started again with its data.

use testkit::Services;
use testkit::services::Kind;
use tokio_postgres::{Client, NoTls};

async fn connect(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    // It ends with an error when the server is stopped, which is what the test is about.
    tokio::spawn(async move { drop(connection.await) });
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_outlives_a_restart() {
    let services = Services::connect();
    let Some(server) = services.own(Kind::Postgres) else { return };

    let client = connect(server.address()).await;
    client
        .batch_execute(
            "DROP TABLE IF EXISTS smoke; CREATE TABLE smoke (id int PRIMARY KEY, body text NOT NULL);
             INSERT INTO smoke VALUES (1, 'kept')",
        )
        .await
        .unwrap();
    let body: String = client.query_one("SELECT body FROM smoke WHERE id = $1", &[&1]).await.unwrap().get(0);
    assert_eq!(body, "kept");
    let fsync: String = client.query_one("SHOW fsync", &[]).await.unwrap().get(0);
    assert_eq!(fsync, "on", "a database that does not write is no test of durability");

    if !server.ours_to_break() {
        client.batch_execute("DROP TABLE smoke").await.unwrap();
        return;
    }
    server.stop();
    assert!(
        tokio_postgres::connect(server.address(), NoTls).await.is_err(),
        "a stopped server must not answer"
    );
    server.start();
    let client = connect(server.address()).await;
    let body: String = client.query_one("SELECT body FROM smoke WHERE id = $1", &[&1]).await.unwrap().get(0);
    assert_eq!(body, "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_committed_row_outlives_a_kill() {
    let services = Services::connect();
    if !services.faults() {
        return;
    }
    let Some(server) = services.own(Kind::Postgres) else { return };
    if !server.ours_to_break() {
        return;
    }
    let client = connect(server.address()).await;
    client.batch_execute("CREATE TABLE smoke (id int); INSERT INTO smoke VALUES (7)").await.unwrap();
    server.kill();
    server.start();
    let client = connect(server.address()).await;
    let id: i32 = client.query_one("SELECT id FROM smoke", &[]).await.unwrap().get(0);
    assert_eq!(id, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn tests_that_share_a_server_get_the_same_one() {
    let services = Services::connect();
    let others = Services::connect();
    let (one, other) = tokio::join!(
        tokio::task::spawn_blocking(move || services.postgres()),
        tokio::task::spawn_blocking(move || others.postgres()),
    );
    let (Some(one), Some(other)) = (one.unwrap(), other.unwrap()) else { return };
    assert_eq!(one.address(), other.address());
    connect(one.address()).await.simple_query("SELECT 1").await.unwrap();
}
