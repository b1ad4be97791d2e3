//! A hook that is an HTTP endpoint.

use std::time::Duration;

use async_trait::async_trait;

use super::{Diverted, Hook};
use crate::handler::http::post::Post;
use crate::handler::http::{HttpHandlerError, HttpOptions};

/// An HTTP endpoint that is told of diversions: a POST of [`Diverted`] as JSON.
///
/// It is called by the rules of an [HTTP handler](crate::handler::http): the same client, no redirects, the same
/// private addresses refused when asked to, signed by the Standard Webhooks scheme when there is a secret. `webhook-id`
/// and `idempotency-key` are the entry, the attempt and `before` or `after`, so that a repetition is known. Any 2xx is
/// well; it has 5 s, and its answer changes nothing.
///
/// ```
/// use redrive_engine::handler::http::HttpOptions;
/// use redrive_engine::hook::WebHook;
///
/// let hook = WebHook::new("https://orders.example/hooks/before?token=secret", HttpOptions::default())?;
/// assert_eq!(hook.address(), "https://orders.example/hooks/before");
/// # Ok::<(), redrive_engine::handler::http::HttpHandlerError>(())
/// ```
#[derive(Debug)]
pub struct WebHook {
    post: Post,
    timeout: Duration,
}

impl WebHook {
    /// How long a call may take.
    pub const TIMEOUT: Duration = Duration::from_secs(5);

    /// A hook at an address. Connects to nothing yet.
    pub fn new(address: &str, options: HttpOptions) -> Result<Self, HttpHandlerError> {
        Ok(Self { post: Post::new(address, options)?, timeout: Self::TIMEOUT })
    }

    /// Gives up after another time.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The address without credentials and query.
    pub fn address(&self) -> &str {
        self.post.address()
    }
}

#[async_trait]
impl Hook for WebHook {
    async fn told(&self, diverted: &Diverted) -> Result<(), String> {
        let json = serde_json::to_vec(diverted).map_err(|error| error.to_string())?;
        let id = format!("{}.{}.{}", diverted.entry_id, diverted.attempt, diverted.when.as_str());
        match tokio::time::timeout(self.timeout, self.post.send(&id, diverted.at, json)).await {
            Ok(answered) => answered,
            Err(_) => Err(format!(
                "no answer from POST {} within {}",
                self.address(),
                redrive_core::duration::print(self.timeout)
            )),
        }
    }
}
