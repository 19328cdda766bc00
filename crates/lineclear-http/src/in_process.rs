//! The same API without a listener, for a program that has the database at hand: what it asks goes through the same routes.

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{Request, header};
use lineclear::Client;
use tower::ServiceExt;

use crate::ShownLocks;
use crate::access::Person;
use crate::audit::Writers;
use crate::listener::Limits;
use crate::server::{self, HttpOptions};

/// The API of a database, for one program.
#[derive(Debug)]
pub struct Local {
    router: Router,
    writers: Writers,
    person: Option<Person>,
}

/// An answer, whose body may go on for as long as something happens.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    body: Body,
}

impl Local {
    /// Of the store of a client; `locks` are those that it shows.
    pub fn new(client: Client, locks: Option<ShownLocks>) -> Local {
        let reading = client.store().clone();
        // Nobody else can ask: there is nothing to hold back.
        let limits = Limits { rate: 0, ..Limits::default() };
        let options = HttpOptions { locks, limits, ..HttpOptions::default() };
        let made = server::assemble(options, client, reading, None);
        Local { router: made.router, writers: made.writers, person: None }
    }

    /// Who asks, as the audit shall have it, such as `cli:ada`; otherwise `local`.
    pub fn by(self, who: &str) -> Local {
        Local { person: Some(Person(who.to_owned())), ..self }
    }

    /// Asks.
    pub async fn ask(
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
        if let Some(person) = &self.person {
            request.extensions_mut().insert(person.clone());
        }
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        Ok(Reply { status: parts.status.as_u16(), headers, body })
    }

    /// Waits until what was done is written down.
    pub async fn finish(self) {
        drop(self.router);
        self.writers.finish().await;
    }
}

impl Reply {
    /// The next piece of the body; `None`: that was all.
    pub async fn piece(&mut self) -> Option<Vec<u8>> {
        loop {
            let frame =
                std::future::poll_fn(|context| std::pin::Pin::new(&mut self.body).poll_frame(context)).await;
            // What ends in the middle has ended.
            if let Ok(data) = frame?.ok()?.into_data() {
                return Some(data.to_vec());
            }
        }
    }
}
