//! Each message becomes a signed call.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use lineclear_outbox::{Delivery, DeliveryError, Sink};
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::outbound::{Breakers, Secret, client, host_of};

/// How much of an answer stands in an error, in characters.
const SHOWN_CHARS: usize = 200;
/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The URL or the client is of no use.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadWebhook(String);

/// Sends each message to a URL, according to Standard Webhooks: the header `webhook-id` is the delivery id, and the body has `type`,
/// `timestamp` and `data`. The URL comes from the program and not from data, so it may lead anywhere.
#[derive(Clone)]
pub struct Webhook {
    client: reqwest::Client,
    url: Url,
    secrets: Vec<Secret>,
    breakers: Breakers,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: &'a str,
    timestamp: String,
    data: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: &'a BTreeMap<String, String>,
}

impl Webhook {
    /// Sends messages to this URL, signed with these secrets: with several while one is replaced.
    pub fn new(url: &str, secrets: impl IntoIterator<Item = Secret>) -> Result<Webhook, BadWebhook> {
        let parsed =
            Url::parse(url).map_err(|error| BadWebhook(format!("the URL cannot be read: {error}")))?;
        if !["http", "https"].contains(&parsed.scheme()) || parsed.host_str().is_none() {
            return Err(BadWebhook("the URL must begin with http:// or https:// and name a host".to_owned()));
        }
        let client = client::client()
            .build()
            .map_err(|error| BadWebhook(format!("calls cannot be made: {}", error.without_url())))?;
        Ok(Webhook {
            client,
            url: parsed,
            secrets: secrets.into_iter().collect(),
            breakers: Breakers::default(),
        })
    }

    fn body(message: &Delivery) -> Result<Vec<u8>, String> {
        let data: &RawValue = serde_json::from_str(&message.payload).map_err(|error| error.to_string())?;
        let created = jiff::Timestamp::try_from(message.created_at).map_err(|error| error.to_string())?;
        let body = Body {
            r#type: &message.topic,
            timestamp: created.to_string(),
            data,
            key: message.key.as_deref(),
            headers: &message.headers,
        };
        serde_json::to_vec(&body).map_err(|error| error.to_string())
    }

    fn headers(&self, message: &Delivery, body: &[u8]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(Ok(trace)) = message.trace.as_deref().map(HeaderValue::from_str) {
            headers.insert("traceparent", trace);
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let timestamp = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        client::sign_headers(&mut headers, &self.secrets, &message.delivery_id.to_string(), timestamp, body);
        headers
    }
}

impl Sink for Webhook {
    async fn deliver(&self, message: Delivery) -> Result<(), DeliveryError> {
        let body = Webhook::body(&message)
            .map_err(|error| DeliveryError::reject(format!("the message cannot be sent: {error}")))?;
        let host = host_of(&self.url);
        let Ok(permit) = self.breakers.admit(&host) else {
            return Err(DeliveryError::unavailable(format!(
                "{host} is not called for now: its last calls failed"
            )));
        };
        let headers = self.headers(&message, &body);
        let sent =
            self.client.post(self.url.clone()).headers(headers).timeout(TIMEOUT).body(body).send().await;
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => {
                permit.failure(None);
                let what = format!("no answer: {}", lineclear_tls::with_causes(&error.without_url()));
                return Err(DeliveryError::retry(what));
            }
        };
        let (status, wait) = (response.status(), client::retry_after(response.headers()));
        if status.is_success() {
            permit.success();
            return Ok(());
        }
        let (answer, _) = client::read_body(&mut response, SHOWN_CHARS * 4).await;
        let shown: String = String::from_utf8_lossy(&answer).chars().take(SHOWN_CHARS).collect();
        let what = format!("{host} answered {status}: {shown}");
        if client::is_overloaded(status.as_u16()) {
            permit.failure(wait);
            return Err(match wait {
                Some(wait) => DeliveryError::retry_in(what, wait),
                None => DeliveryError::retry(what),
            });
        }
        permit.success();
        // 410: the receiver wants no more. All other errors may be mended at the other side.
        Err(if status.as_u16() == 410 { DeliveryError::reject(what) } else { DeliveryError::retry(what) })
    }
}
