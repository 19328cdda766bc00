//! A small HTTP server for calls that a test receives: webhooks, and jobs that are pushed.

use std::{io, net::SocketAddr, sync::Arc};

use anyhow::Result;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Largest body of a call.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A call.
#[derive(Clone, Debug)]
pub struct HttpCall {
    /// The path, with its query.
    pub path: String,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl HttpCall {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// The response to a call.
#[derive(Clone, Debug)]
pub enum HttpReply {
    /// A status, headers, and a body.
    Response(u16, Vec<(String, String)>, String),
    /// The connection is closed without a response.
    HangUp,
}

impl HttpReply {
    /// A response without headers.
    pub fn new(status: u16, body: impl Into<String>) -> HttpReply {
        HttpReply::Response(status, Vec::new(), body.into())
    }
}

/// A server on a free loopback port. It and its connections end when this is dropped.
pub struct HttpEndpoint {
    address: SocketAddr,
    _listener: JoinSet<()>,
}

impl HttpEndpoint {
    /// Answers each call with what `handler` returns. If the client hangs up before, the future of the handler is dropped.
    pub async fn start<H, F>(handler: H) -> Result<HttpEndpoint>
    where
        H: Fn(HttpCall) -> F + Send + Sync + 'static,
        F: Future<Output = HttpReply> + Send,
    {
        HttpEndpoint::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), handler).await
    }

    /// Like [`HttpEndpoint::start`], at an address that was used before.
    pub async fn start_at<H, F>(address: SocketAddr, handler: H) -> Result<HttpEndpoint>
    where
        H: Fn(HttpCall) -> F + Send + Sync + 'static,
        F: Future<Output = HttpReply> + Send,
    {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let handler = Arc::new(handler);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let handler = handler.clone();
                // A connection that breaks off is the client's business.
                connections.spawn(async move { drop(serve(stream, &*handler).await) });
            }
        });
        Ok(HttpEndpoint { address, _listener: accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:40000/jobs`
    pub fn url(&self) -> String {
        format!("http://{}/jobs", self.address)
    }
}

async fn serve<H, F>(stream: TcpStream, handler: &H) -> io::Result<()>
where
    H: Fn(HttpCall) -> F,
    F: Future<Output = HttpReply>,
{
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    while let Some(call) = read(&mut stream).await? {
        let reply = tokio::select! {
            reply = handler(call) => reply,
            // The client sends nothing before it has a response: this is its end.
            _ = stream.fill_buf() => return Ok(()),
        };
        let HttpReply::Response(status, headers, body) = reply else { return Ok(()) };
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("HTTP/1.1 {status} -\r\n{headers}content-length: {}\r\n\r\n", body.len());
        stream.get_mut().write_all((head + &body).as_bytes()).await?;
    }
    Ok(())
}

/// The next call; `None` at the end of the connection.
async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Option<HttpCall>> {
    let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).ok_or_else(|| bad("no path"))?.to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut call = HttpCall { path, headers, body: Vec::new() };
    let length = call.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    if length > BODY_BYTES_MAX {
        return Err(bad("too large"));
    }
    call.body.resize(length, 0);
    stream.read_exact(&mut call.body).await?;
    Ok(Some(call))
}
