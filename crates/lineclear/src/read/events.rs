//! Events in the order of the database's clock.
//!
//! A position in the stream is a time. The stream is complete up to a horizon: no event before it can still appear. A reader
//! that resumes at the horizon misses nothing, and may receive events after it twice.

use lineclear_model::Micros;

use crate::db::statements::Statement;
use crate::db::{Query, Row, Session, Verb, values};
use crate::store::{AuditId, DeadLetterId, JobId, ManifestId, NodeId, Store, StoreError, StoreResult};

/// Most events of one source that one call reads.
pub const EVENTS_MAX: u32 = 10_000;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventView {
    /// When, on the database's clock.
    pub at: Micros,
    /// What it is about.
    pub about: About,
    /// Identifies the event, also when it is read again.
    pub key: (u8, i64, i64),
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A claim of a job ended.
    Job {
        /// The job.
        job: JobId,
        /// The number of the claim.
        claim_no: u32,
        /// How it ended, as a word: `completed`, `failed`, `lost`, ….
        outcome: String,
        /// Whether this ended the job.
        is_final: bool,
        /// Its kind.
        kind: String,
        /// Its manifest.
        manifest: Option<ManifestId>,
        /// The node that ran it.
        node: Option<NodeId>,
        /// The job became a dead letter.
        dead_letter: Option<DeadLetterId>,
    },
    /// A lock changed hands.
    Lock {
        /// Its name.
        name: String,
        /// `taken`, `lost`, `vanished` or `broken`.
        what: String,
        /// The present or former holder.
        holder: String,
    },
    /// A node started, or has sent no heartbeat for 30 seconds.
    Node {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// `started` or `silent`.
        what: String,
    },
    /// A change was requested.
    Audit {
        /// Its entry in the audit log.
        id: AuditId,
        /// The actor.
        who: String,
        /// The action.
        action: String,
        /// The object of the action.
        target: String,
        /// The HTTP status of the response. `None`: the action had not finished some seconds later.
        status: Option<u16>,
    },
}

/// Events since a time.
#[derive(Clone, Debug)]
pub struct Events {
    /// Oldest first.
    pub items: Vec<EventView>,
    /// No event before this time is missing. Resume here.
    pub horizon: Micros,
    /// There are more events than one call reads.
    pub more: bool,
    /// One moment has more events than one call reads: some cannot be read.
    pub overrun: bool,
    /// The database's clock.
    pub now: Micros,
}

/// Reads the horizon, then the events since a time.
struct ReadEvents {
    since: Micros,
    most: u32,
}

impl Verb for ReadEvents {
    type Answer = Events;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Events> {
        let (mut horizon, now) = read_horizon().run(session).await?;
        let rows = session.rows(Statement::ListEvents, values![self.since, self.most]).await?;
        let mut items = rows.iter().map(event).collect::<StoreResult<Vec<_>>>()?;
        // A source with more rows than requested is known up to its last row; so is the whole stream.
        let mut last = [(0, Micros::EPOCH); 7];
        for item in &items {
            let (count, at) = &mut last[usize::from(item.key.0).min(6)];
            (*count, *at) = (*count + 1, item.at);
        }
        let full = last.iter().filter(|(count, _)| *count >= self.most).map(|(_, at)| *at).min();
        if let Some(at) = full {
            items.retain(|item| item.at <= at);
            horizon = horizon.min(at);
        }
        let overrun = full.is_some_and(|at| at <= self.since);
        // An unfinished action is reported later, with its result, or when it is read for the last time.
        items.retain(|item| !matches!(item.about, About::Audit { status: None, .. }) || item.at < horizon);
        Ok(Events { items, horizon: horizon.max(self.since), more: full.is_some(), overrun, now })
    }
}

/// The horizon, and the database's clock.
fn read_horizon() -> Query<(Micros, Micros)> {
    Query::one(Statement::EventHorizon, values![], |row| Ok((row.get("horizon")?, row.get("now")?)))
}

fn event(row: &Row) -> StoreResult<EventView> {
    let (source, id, no): (u8, i64, i64) = (row.get("source")?, row.get("id")?, row.get("no")?);
    let (word, name): (String, String) = (row.get("word")?, row.get("name")?);
    let about = match source {
        0..=2 => About::Job {
            job: JobId(id),
            claim_no: row.get("no")?,
            outcome: word,
            is_final: source < 2,
            kind: name,
            manifest: row.get::<Option<i64>>("manifest_id")?.map(ManifestId),
            node: row.get::<Option<i64>>("node")?.map(NodeId),
            dead_letter: row.get::<Option<i64>>("dead_letter")?.map(DeadLetterId),
        },
        3 => About::Lock { name, what: word, holder: row.get("who")? },
        4 | 5 => About::Node { node: NodeId(id), name, what: word },
        6 => About::Audit {
            id: AuditId(id),
            who: row.get("who")?,
            action: word,
            target: name,
            status: row.get("status")?,
        },
        other => return Err(StoreError::Corrupt { what: format!("list_events has a source {other}") }),
    };
    Ok(EventView { at: row.get("at")?, about, key: (source, id, no) })
}

impl Store {
    /// Events since a time, oldest first, and the horizon up to which they are complete. A reader that resumes at the horizon
    /// misses nothing, and receives events after it again.
    pub async fn events(&self, since: Micros) -> StoreResult<Events> {
        self.db.read(ReadEvents { since, most: EVENTS_MAX }).await
    }

    /// The time up to which all events are visible, and the database's clock.
    pub async fn event_horizon(&self) -> StoreResult<(Micros, Micros)> {
        self.db.read(read_horizon()).await
    }
}
