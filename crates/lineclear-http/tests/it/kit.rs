//! A server on a free port, and a client that can also send invalid requests.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lineclear::model::{Name, Scopes};
use lineclear::store::{NewToken, StoreOptions};
use lineclear::{Cancel, Done, HandlerError, Input, Lineclear, Node, NodeOptions, Permanent, Store};
use lineclear_http::{DatabaseLocks, HttpOptions, Server};
use lineclear_testkit::{PostgresDatabase, Template};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// A database, a node and its server.
pub(crate) struct Served {
    pub(crate) node: Option<Node>,
    pub(crate) address: SocketAddr,
    /// The URL of its store.
    pub(crate) url: String,
    stop: Arc<Notify>,
    store: TestStore,
}

enum TestStore {
    /// It is not ours.
    Elsewhere,
    Sqlite(#[expect(dead_code, reason = "it is gone with us")] tempfile::TempDir),
    Postgres(PostgresDatabase),
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

async fn add(Input((one, other)): Input<(i64, i64)>) -> Result<Done<i64>, HandlerError> {
    one.checked_add(other).map(Done).ok_or_else(|| "too large".into())
}

async fn broken(Input(message): Input<String>) -> Result<(), HandlerError> {
    if message == "mended" { Ok(()) } else { Err(Permanent::new(message).into()) }
}

async fn endless(cancel: Cancel) -> Result<(), HandlerError> {
    cancel.requested().await;
    Err("told to stop".into())
}

impl Served {
    pub(crate) async fn sqlite() -> Served {
        Served::sqlite_with(|_| ()).await
    }

    /// A server with other options.
    pub(crate) async fn sqlite_with(change: impl FnOnce(&mut HttpOptions)) -> Served {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lineclear.db");
        template().sqlite(&file, async |path: PathBuf| migrate(path.to_str().unwrap()).await).await;
        Served::on(file.to_str().unwrap(), TestStore::Sqlite(dir), change).await
    }

    pub(crate) async fn postgres() -> Served {
        Served::postgres_with(|_| ()).await
    }

    pub(crate) async fn postgres_with(change: impl FnOnce(&mut HttpOptions)) -> Served {
        let database = migrated().await;
        let url = database.url().to_owned();
        Served::on(&url, TestStore::Postgres(database), change).await
    }

    async fn on(url: &str, store: TestStore, change: impl FnOnce(&mut HttpOptions)) -> Served {
        let quick = Duration::from_millis(250);
        let options = NodeOptions { poll: quick, heartbeat: quick, slots: 4, ..NodeOptions::default() };
        let node = Lineclear::builder()
            .store(url)
            .options(options)
            .kind("add", add)
            .kind("endless", endless)
            .kind("broken", broken);
        Served::over(node.start().await.unwrap(), url, store, change).await
    }

    /// A server of this node, on a database of the test.
    pub(crate) async fn of(node: Node, url: &str) -> Served {
        Served::over(node, url, TestStore::Elsewhere, |_| ()).await
    }

    async fn over(node: Node, url: &str, store: TestStore, change: impl FnOnce(&mut HttpOptions)) -> Served {
        let locks = Some(DatabaseLocks::new(url).unwrap());
        let bind = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut http = HttpOptions { bind, locks, ..HttpOptions::default() };
        change(&mut http);
        let server = Server::bind(http, node.client(), None).await.unwrap();
        let (address, stop) = (server.address(), Arc::new(Notify::new()));
        let stopped = stop.clone();
        tokio::spawn(server.run(async move { stopped.notified().await }));
        Served { node: Some(node), address, url: url.to_owned(), stop, store }
    }

    /// A server on a database of the test.
    pub(crate) async fn at(url: &str) -> Served {
        Served::on(url, TestStore::Elsewhere, |_| ()).await
    }

    /// The database.
    pub(crate) fn url(&self) -> &str {
        match &self.store {
            TestStore::Postgres(database) => database.url(),
            TestStore::Sqlite(_) | TestStore::Elsewhere => {
                panic!("only PostgreSQL has a URL that others understand")
            }
        }
    }

    pub(crate) fn store(&self) -> &Store {
        self.node.as_ref().unwrap().store()
    }

    /// A new token with this scope, which is also its name.
    pub(crate) async fn token(&self, scope: &str) -> String {
        let (name, scopes) = (Name::new(scope).unwrap(), Scopes::parse(scope).unwrap());
        let token = NewToken { name, scopes, kinds: None, lives: None, created_by: "a test".to_owned() };
        self.store().create_token(token).await.unwrap().1.expose().to_owned()
    }

    /// Sends a request with a token.
    pub(crate) async fn with(&self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
        self.send(method, path, &headers, body.as_bytes()).await
    }

    /// Sends bytes as they are, and reads until the server closes.
    pub(crate) async fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that refuses a request may close before it has read all.
        let _ = stream.write_all(request).await;
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(40), stream.read_to_end(&mut bytes));
        let _ = read.await.expect("an answer");
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
            unchunked(body)
        } else {
            body.to_owned()
        };
        Answer { status, head: head.to_owned(), body }
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let has = |name: &str| headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !has("host") {
            head.push_str(&format!("Host: {}\r\n", self.address));
        }
        if !has("content-length") && (!body.is_empty() || method != "GET") {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.raw(&[head.as_bytes(), b"\r\n", body].concat()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"").await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.send("POST", path, &[("Content-Type", "application/json")], body.as_bytes()).await
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Answer {
        self.send("PUT", path, &[("Content-Type", "application/json")], body.as_bytes()).await
    }

    /// Repeats a request until the response meets the condition.
    pub(crate) async fn until(&self, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        self.until_with("", path, is).await
    }

    /// Sends it with this token.
    pub(crate) async fn until_with(&self, token: &str, path: &str, is: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..600 {
            let answer = match token {
                "" => self.get(path).await,
                token => self.with(token, "GET", path, "").await,
            };
            if answer.status == 200 && is(&answer.json()) {
                return answer.json();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("in vain: {path}: {:?}", self.get(path).await)
    }

    pub(crate) async fn end(mut self) {
        self.stop.notify_one();
        if let Some(node) = self.node.take() {
            node.stop().await;
        }
    }
}

/// A copy of a database that was migrated once for all tests.
pub(crate) async fn migrated() -> PostgresDatabase {
    template().postgres(async |url: String| migrate(&url).await).await
}

fn template() -> Template {
    Template::of_folder("lineclear", concat!(env!("CARGO_MANIFEST_DIR"), "/../lineclear/migrations"))
}

async fn migrate(url: &str) {
    drop(Store::open(StoreOptions::new(url).unwrap()).await.unwrap());
}

fn unchunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || size > rest.len() {
            break;
        }
        body.push_str(&rest[..size]);
        text = rest[size..].trim_start_matches("\r\n");
    }
    body
}

/// Runs a test on both stores.
#[macro_export]
macro_rules! on_each_store {
    ($($name:ident)+) => { $(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                let served = $crate::kit::Served::sqlite().await;
                super::$name(&served).await;
                served.end().await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                let served = $crate::kit::Served::postgres().await;
                super::$name(&served).await;
                served.end().await;
            }
        }
    )+ };
}

/// Runs a test on both stores, with a server that requires tokens.
#[macro_export]
macro_rules! with_tokens_on_each_store {
    ($($name:ident)+) => { $(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                let asks = |http: &mut lineclear_http::HttpOptions| http.access = lineclear_http::Access::Tokens;
                let served = $crate::kit::Served::sqlite_with(asks).await;
                super::$name(&served).await;
                served.end().await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                let asks = |http: &mut lineclear_http::HttpOptions| http.access = lineclear_http::Access::Tokens;
                let served = $crate::kit::Served::postgres_with(asks).await;
                super::$name(&served).await;
                served.end().await;
            }
        }
    )+ };
}
