//! The API without a listener, for programs with direct access to the database. Requests pass the same routes.

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{Request, header};
use lineclear::Client;
use tower::ServiceExt;

use crate::DatabaseLocks;
use crate::audit::AuditTasks;
use crate::auth::LocalUser;
use crate::listener::ListenerLimits;
use crate::server::{self, HttpOptions};

/// The API in process.
#[derive(Debug)]
pub struct InProcessApi {
    router: Router,
    audit_tasks: AuditTasks,
    user: Option<LocalUser>,
}

/// A response, whose body may be a stream.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    body: Body,
}

impl InProcessApi {
    /// The API over the store of a client, with these locks.
    pub fn new(client: Client, locks: Option<DatabaseLocks>) -> InProcessApi {
        let reading = client.store().clone();
        // There is one caller, so there is no rate limit.
        let limits = ListenerLimits { rate: 0, ..ListenerLimits::default() };
        let options = HttpOptions { locks, limits, ..HttpOptions::default() };
        let assembled = server::assemble(options, client, reading, None);
        InProcessApi { router: assembled.router, audit_tasks: assembled.audit_tasks, user: None }
    }

    /// Sets the name of the caller in the audit, such as `cli:ada`; the default is `local`.
    pub fn with_user(self, who: &str) -> InProcessApi {
        InProcessApi { user: Some(LocalUser(who.to_owned())), ..self }
    }

    /// Sends a request.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<Reply, String> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
        if let Some(user) = &self.user {
            request.extensions_mut().insert(user.clone());
        }
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        Ok(Reply { status: parts.status.as_u16(), headers, body })
    }

    /// Waits until the audit is written.
    pub async fn finish(self) {
        drop(self.router);
        self.audit_tasks.finish().await;
    }
}

impl Reply {
    /// The next chunk of the body; `None` at its end.
    pub async fn next_chunk(&mut self) -> Option<Vec<u8>> {
        loop {
            let frame =
                std::future::poll_fn(|context| std::pin::Pin::new(&mut self.body).poll_frame(context)).await;
            // A body that breaks off has ended.
            if let Ok(data) = frame?.ok()?.into_data() {
                return Some(data.to_vec());
            }
        }
    }
}
