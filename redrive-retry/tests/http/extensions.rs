//! What middlewares after the retries leave for those before them.

use http::Extensions;
use redrive_retry::http::{HttpAnswers, RetryMiddleware};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};

use crate::clients::quick;
use crate::server::{Fate, OK, Server};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen(Vec<u16>);

/// Writes down each status it sees.
struct Writes;

#[async_trait::async_trait]
impl Middleware for Writes {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let answer = next.run(request, extensions).await?;
        let mut seen = extensions.remove::<Seen>().unwrap_or(Seen(Vec::new()));
        seen.0.push(answer.status().as_u16());
        extensions.insert(seen);
        Ok(answer)
    }
}

#[tokio::test]
async fn what_the_last_attempt_left_is_there() {
    let server = Server::start([Fate::Answer(503, &[]), OK]).await;
    let retryer = quick().classify(HttpAnswers::default()).build().unwrap();
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new())
        .with(RetryMiddleware::new(retryer))
        .with(Writes)
        .build();
    let mut extensions = Extensions::new();
    extensions.insert(17_u8);
    let request = client.get(server.url()).build().unwrap();
    let answer = client.execute_with_extensions(request, &mut extensions).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(
        extensions.get::<Seen>(),
        Some(&Seen(vec![200])),
        "each attempt began with those of the first"
    );
    assert_eq!(extensions.get::<u8>(), Some(&17));
}
