//! events: what happened, in the order of the database's clock, for those who watch.
//!
//! A place in this order is a moment. It is complete up to a horizon: before it, nothing can appear any more. Whoever goes on
//! from the horizon misses nothing, and hears of what lies behind it perhaps twice.

use lineclear_model::Micros;

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::store::{AuditId, DeadLetterId, JobId, ManifestId, NodeId, Store, StoreError, StoreResult};

/// Most events of one source that one call reads.
pub const EVENTS_MAX: u32 = 10_000;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventView {
    /// When, on the database's clock.
    pub at: Micros,
    /// What it is about.
    pub about: About,
    /// Tells it from others, also if it is read again.
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
        /// That was the job's end.
        is_final: bool,
        /// Its kind.
        kind: String,
        /// The manifest it is of.
        manifest: Option<ManifestId>,
        /// Who ran it.
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
        /// Who holds it, or held it.
        holder: String,
    },
    /// A node came, or was not heard of for 30 seconds.
    Node {
        /// The node.
        node: NodeId,
        /// Its name.
        name: String,
        /// `started` or `silent`.
        what: String,
    },
    /// Somebody asked for a change.
    Audit {
        /// Its row in the audit.
        id: AuditId,
        /// Who.
        who: String,
        /// For what.
        action: String,
        /// To what.
        target: String,
        /// The status of the answer. `None`: it was not over some seconds later.
        status: Option<u16>,
    },
}

/// What happened since a moment.
#[derive(Clone, Debug)]
pub struct Events {
    /// Oldest first.
    pub items: Vec<EventView>,
    /// Nothing before this moment is missing. Go on from here.
    pub horizon: Micros,
    /// There is more than one call reads.
    pub more: bool,
    /// More happened at one moment than one call reads: what is missing cannot be had.
    pub overrun: bool,
    /// The database's clock.
    pub now: Micros,
}

/// Verb: what happened since a moment.
pub(crate) struct ReadEvents {
    pub(crate) since: Micros,
    pub(crate) most: u32,
}

impl Verb for ReadEvents {
    type Answer = Events;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Events> {
        let (mut horizon, now) = horizon(session).await?;
        let params = vec![Value::Time(Some(self.since)), Value::Int(Some(i64::from(self.most)))];
        let rows = session.rows(Statement::ListEvents, params).await?;
        let mut items = rows.iter().map(event).collect::<StoreResult<Vec<_>>>()?;
        // A source that had more than was asked for is known up to its last row, and so is the whole.
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
        // One that is not over is told later, with its outcome, or when it is read for the last time.
        items.retain(|item| !matches!(item.about, About::Audit { status: None, .. }) || item.at < horizon);
        Ok(Events { items, horizon: horizon.max(self.since), more: full.is_some(), overrun, now })
    }
}

/// Verb: the horizon, and the database's clock.
pub(crate) struct EventHorizon;

impl Verb for EventHorizon {
    type Answer = (Micros, Micros);

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<(Micros, Micros)> {
        horizon(session).await
    }
}

async fn horizon(session: &mut Session) -> StoreResult<(Micros, Micros)> {
    let rows = session.rows(Statement::EventHorizon, Vec::<Value>::new()).await?;
    let row = rows.first().ok_or_else(|| crate::error::no_answer("event_horizon"))?;
    Ok((row.get("horizon")?, row.get("now")?))
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
    /// What happened since a moment, oldest first, and up to where it is complete. Reading on from there misses nothing; what lies
    /// behind the horizon comes again.
    pub async fn events(&self, since: Micros) -> StoreResult<Events> {
        self.db.read(ReadEvents { since, most: EVENTS_MAX }).await
    }

    /// The moment up to which everything that happened can be seen, and the database's clock.
    pub async fn event_horizon(&self) -> StoreResult<(Micros, Micros)> {
        self.db.read(EventHorizon).await
    }
}
