//! Retries around a `reqwest` client.

use http::{Extensions, HeaderMap, Method, StatusCode};
use reqwest::{Client, ClientBuilder, Request, Response};

use super::{FailedRequest, HttpAnswer, HttpJudge, HttpRequest, HttpRetry};
use crate::{Classify, Hooks, RetryError, Retryer};

impl HttpAnswer for Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }

    fn extensions(&self) -> &Extensions {
        self.extensions()
    }

    fn extensions_mut(&mut self) -> &mut Extensions {
        self.extensions_mut()
    }
}

impl HttpRequest for Request {
    fn method(&self) -> &Method {
        self.method()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }

    fn headers_mut(&mut self) -> &mut HeaderMap {
        self.headers_mut()
    }

    fn copy(&self) -> Option<Self> {
        self.try_clone()
    }
}

impl<C, H> HttpRetry<Client, C, H>
where
    C: HttpJudge + Classify<Response, reqwest::Error>,
    C::Error: FailedRequest<Answer = Response>,
    H: Hooks<C::Error>,
{
    /// A client of `reqwest` with the retryer's connect timeout, and without retries of its own: those of what HTTP/2
    /// refused would be neither counted nor within any budget.
    ///
    /// ```no_run
    /// use redrive_retry::Retryer;
    /// use redrive_retry::http::{HttpAnswers, HttpRetry};
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let retryer = Retryer::builder().classify(HttpAnswers::default()).build()?;
    /// let client = HttpRetry::reqwest(reqwest::Client::builder(), retryer)?;
    /// let request = client.client().get("http://127.0.0.1:3000/orders/17").build()?;
    /// let answer = client.execute(request).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reqwest(builder: ClientBuilder, retryer: Retryer<C, H>) -> reqwest::Result<Self> {
        let client =
            builder.connect_timeout(retryer.connect_timeout()).retry(reqwest::retry::never()).build()?;
        Ok(Self::new(client, retryer))
    }

    /// Sends a request, and sends it again as far as it may be. A body that is a stream is sent once.
    pub async fn execute(
        &self,
        request: Request,
    ) -> Result<Response, RetryError<<C::Error as FailedRequest>::Cause>> {
        self.send(self.client().clone(), request).await
    }
}
