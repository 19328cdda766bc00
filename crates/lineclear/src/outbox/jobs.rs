//! Each message becomes a job.

use std::time::Duration;

use lineclear_model::{Name, Payload};
use lineclear_outbox::{Delivery, DeliveryError, Sink};

use crate::client::Client;
use crate::error::StoreError;
use crate::store::{NewJob, UniqueKey};

/// How long a message that comes again makes no second job: longer than an outbox tries.
const KEEP: Duration = Duration::from_secs(7 * 86_400);

/// Makes a job of each message. Its kind is the topic unless one was set, and its input is the payload. A message that is delivered twice
/// within seven days makes one job. Jobs of one key are made in order; they run in that order only if a limit says so.
#[derive(Clone, Debug)]
pub struct Jobs {
    client: Client,
    kind: Option<Name>,
}

impl Jobs {
    /// Makes jobs with this client.
    pub fn new(client: Client) -> Jobs {
        Jobs { client, kind: None }
    }

    /// All jobs are of this kind.
    #[must_use]
    pub fn of_kind(self, kind: Name) -> Jobs {
        Jobs { kind: Some(kind), ..self }
    }

    fn job(&self, message: Delivery) -> Result<NewJob, DeliveryError> {
        let kind = match &self.kind {
            Some(kind) => kind.clone(),
            None => Name::new(&message.topic).map_err(|error| {
                DeliveryError::reject(format!("the topic is not a kind of jobs: {error}"))
            })?,
        };
        let input = Payload::parse(&message.payload)
            .map_err(|error| DeliveryError::reject(format!("the payload cannot be an input: {error}")))?;
        let unique_key = UniqueKey::idempotency(format!("outbox:{}", message.delivery_id), KEEP);
        Ok(NewJob { unique_key: Some(unique_key), trace: message.trace, ..NewJob::new(kind, input) })
    }
}

impl Sink for Jobs {
    async fn deliver(&self, message: Delivery) -> Result<(), DeliveryError> {
        let job = self.job(message)?;
        match self.client.enqueue_job(job).await {
            Ok(_) => Ok(()),
            Err(error @ StoreError::Refused { .. }) => Err(DeliveryError::reject(error.to_string())),
            Err(error @ (StoreError::Unavailable { .. } | StoreError::CannotWrite { .. })) => {
                Err(DeliveryError::unavailable(error.to_string()))
            }
            Err(error) => Err(DeliveryError::retry(error.to_string())),
        }
    }
}
