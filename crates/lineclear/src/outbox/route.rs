//! An event route: each event of a log becomes a job, in the transaction of the checkpoint.

use lineclear_model::{Name, Payload};
use lineclear_outbox::{Event, HandlerError, Page, PostgresHandler, SqliteHandler};

use crate::client::Client;
use crate::error::StoreError;
use crate::store::NewJob;

/// Makes a job of each event, in the transaction that moves the checkpoint: each event becomes exactly one job. The log must be in the database of
/// the jobs. The kind is the type of the event unless one was set, and the input is the payload. Nodes find the jobs within a second.
///
/// ```no_run
/// # async fn example(node: lineclear::Node) -> Result<(), Box<dyn std::error::Error>> {
/// use lineclear::outbox::{EventLog, Filter, JobRoute, Subscription, SubscriptionOptions};
///
/// let log = EventLog::open("postgres://shop@localhost/shop").await?;
/// let name = Subscription::route_name("billing", "order.placed");
/// let options = SubscriptionOptions { filter: Filter::all().kinds(["order.placed"]), ..SubscriptionOptions::default() };
/// let route = log.subscribe_postgres(&name, options, JobRoute::new(node.client())).await?;
/// # route.stop().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct JobRoute {
    client: Client,
    kind: Option<Name>,
}

impl JobRoute {
    /// Makes jobs with this client.
    pub fn new(client: Client) -> JobRoute {
        JobRoute { client, kind: None }
    }

    /// All jobs are of this kind.
    #[must_use]
    pub fn of_kind(self, kind: Name) -> JobRoute {
        JobRoute { kind: Some(kind), ..self }
    }

    fn job(&self, event: &Event) -> Result<NewJob, HandlerError> {
        let kind = match &self.kind {
            Some(kind) => kind.clone(),
            None => Name::new(&event.kind)
                .map_err(|error| HandlerError::reject(format!("the type is not a kind of jobs: {error}")))?,
        };
        let input = Payload::parse(&event.payload)
            .map_err(|error| HandlerError::reject(format!("the payload cannot be an input: {error}")))?;
        self.client.check_input(&kind, &input).map_err(handler_error)?;
        Ok(NewJob { trace: event.trace.clone(), ..NewJob::new(kind, input) })
    }

    fn jobs(&self, page: &Page) -> Result<Vec<NewJob>, HandlerError> {
        page.events.iter().map(|event| self.job(event)).collect()
    }
}

fn handler_error(error: StoreError) -> HandlerError {
    match error {
        StoreError::Refused { .. } => HandlerError::reject(error.to_string()),
        StoreError::Unavailable { .. } | StoreError::CannotWrite { .. } => {
            HandlerError::unavailable(error.to_string())
        }
        error => HandlerError::retry(error.to_string()),
    }
}

impl PostgresHandler for JobRoute {
    async fn handle(
        &self,
        page: &Page,
        transaction: &tokio_postgres::Transaction<'_>,
    ) -> Result<(), HandlerError> {
        let jobs = self.jobs(page)?;
        self.client.store().enqueue_in(transaction, jobs).await.map(drop).map_err(handler_error)
    }
}

impl SqliteHandler for JobRoute {
    fn handle(&self, page: &Page, transaction: &rusqlite::Transaction<'_>) -> Result<(), HandlerError> {
        let jobs = self.jobs(page)?;
        self.client.store().enqueue_in_sqlite(transaction, jobs).map(drop).map_err(handler_error)
    }
}
