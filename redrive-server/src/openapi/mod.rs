//! The document of the API (`GET /v1/openapi.json`), made where its routes are.
//!
//! A route is added together with what the document says of it, so that there is none without the other, and what is
//! said of bodies comes from the types that are read and written.

mod document;
mod operation;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::handler::Handler;
use axum::http::header;
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;

use crate::api::Api;

pub(crate) use operation::{Content, Operation};

/// Routes, each with its description.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<Api>,
    described: Vec<Described>,
}

/// A route as the document tells of it.
pub(crate) struct Described {
    method: &'static str,
    path: &'static str,
    operation: Operation,
}

impl Routes {
    pub(crate) fn get<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, Api>,
        T: 'static,
    {
        self.add("get", path, get(handler), operation)
    }

    pub(crate) fn post<H, T>(self, path: &'static str, handler: H, operation: Operation) -> Self
    where
        H: Handler<T, Api>,
        T: 'static,
    {
        self.add("post", path, post(handler), operation)
    }

    fn add(
        mut self,
        method: &'static str,
        path: &'static str,
        served: MethodRouter<Api>,
        operation: Operation,
    ) -> Self {
        self.described.push(Described { method, path, operation });
        Self { router: self.router.route(path, served), described: self.described }
    }

    /// The router, which serves its own document under `path`. It is written when it is asked for first: a command
    /// that calls the API in its own process has no use for it.
    pub(crate) fn with_document_at(mut self, path: &'static str) -> Router<Api> {
        let operation = Operation::new("openapi", "This document", Content::Json(document::schema));
        self.described.push(Described { method: "get", path, operation });
        let (described, written) = (Arc::new(self.described), Arc::new(OnceLock::<Bytes>::new()));
        let serve = move || {
            let text = written.get_or_init(|| document::written(&described).to_string().into()).clone();
            std::future::ready(([(header::CONTENT_TYPE, "application/json")], text))
        };
        self.router.route(path, get(serve))
    }
}
