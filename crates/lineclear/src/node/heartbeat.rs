//! Nodes: who is alive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear_model::{Micros, Name};
use tokio::sync::watch;

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::journey::claim::take_back::take_back_charges;
use crate::journey::plan::leadership::WonCycles;
use crate::journey::submit::workers;
use crate::node::pacer::{AFTER_ERROR, Loop};
use crate::node::{Shared, settings};
use crate::store::{NodeId, Store, StoreError, StoreResult};
use crate::submitters::report;
use crate::validate;

/// A node, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// A name for people.
    pub name: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// Unique for each start of a process: a process id comes again.
    pub incarnation: String,
    /// Version of the program.
    pub version: String,
    /// What it does, as a JSON list.
    pub roles: String,
    /// The routes it serves, as a JSON list.
    pub routes: String,
    /// The kinds it runs, as a JSON list.
    pub kinds: String,
    /// Jobs it can run at once.
    pub slots: u32,
    /// Status of its runners, as JSON.
    pub runners: String,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The node's id, the same for all its life.
    pub id: NodeId,
    /// The database's clock.
    pub now: Micros,
    /// The version of the settings that hold.
    pub settings: i64,
    /// Whether it shall take nothing new.
    pub drains: bool,
    /// Whether it leads the planning since this heartbeat.
    pub took_lead: bool,
}

/// Planning cycles that a node has won since its last heartbeat. The node that won the last cycle leads: the registry of locks
/// shows it as the holder of `planner`, since the first cycle that no other node has interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Led {
    /// How many: at least one.
    pub cycles: u32,
    /// How long ago the first of them was.
    pub first_ago: Duration,
    /// How long ago the last of them was.
    pub last_ago: Duration,
}

/// Verb: a node is alive.
pub(crate) struct NodeBeat {
    pub(crate) node: NodeInfo,
    pub(crate) led: Option<Led>,
    /// When the next beat comes.
    pub(crate) next: Option<Duration>,
    /// It was told to drain, and takes nothing any more.
    pub(crate) takes_nothing: bool,
}

fn text(text: &str) -> Value {
    Value::Text(Some(text.to_owned()))
}

impl Verb for NodeBeat {
    type Answer = Heartbeat;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Heartbeat> {
        let node = &self.node;
        let micros = |ago: fn(&Led) -> Duration| {
            let micros = |led| i64::try_from(ago(led).as_micros()).unwrap_or(i64::MAX);
            Value::Int(Some(self.led.as_ref().map_or(0, micros)))
        };
        let params = vec![
            text(&node.name),
            text(&node.host),
            Value::Int(Some(i64::from(node.pid))),
            text(&node.incarnation),
            text(&node.version),
            text(&node.roles),
            text(&node.routes),
            Value::Int(Some(i64::from(node.slots))),
            text(&node.runners),
            Value::Int(Some(self.led.map_or(0, |led| i64::from(led.cycles)))),
            micros(|led| led.first_ago),
            micros(|led| led.last_ago),
            Value::Int(self.next.map(crate::journey::enqueue::insert::millis)),
            text(&node.kinds),
            Value::Bool(self.takes_nothing),
        ];
        let rows = session.rows(Statement::NodeBeat, params).await?;
        let row = rows.first().ok_or_else(|| crate::error::no_answer("node_beat"))?;
        Ok(Heartbeat {
            id: NodeId(row.get("id")?),
            now: row.get("now")?,
            settings: row.get("settings")?,
            drains: row.get("drains")?,
            took_lead: row.get("took_lead")?,
        })
    }
}

/// Verb: a node that led the planning stops.
pub(crate) struct NodeResign(pub(crate) String);

impl Verb for NodeResign {
    type Answer = ();

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        session.rows(Statement::NodeResign, vec![text(&self.0)]).await.map(drop)
    }
}

impl Store {
    /// Reports that a node is alive.
    pub async fn heartbeat(&self, node: NodeInfo) -> StoreResult<Heartbeat> {
        validate::check_limit(node.slots)?;
        self.run(NodeBeat { node, led: None, next: None, takes_nothing: false }).await
    }

    /// Like [`Store::heartbeat`], for a node that has led the planning since its last heartbeat, or that led and was not followed
    /// by another. `next` is the time until its next heartbeat.
    pub async fn heartbeat_leading(
        &self,
        node: NodeInfo,
        led: Option<Led>,
        next: Duration,
    ) -> StoreResult<Heartbeat> {
        self.heartbeat_draining(node, led, next, false).await
    }

    /// Like [`Store::heartbeat_leading`], for a node that may drain; `takes_nothing` says that it takes no work any more.
    #[doc(hidden)]
    pub async fn heartbeat_draining(
        &self,
        node: NodeInfo,
        led: Option<Led>,
        next: Duration,
        takes_nothing: bool,
    ) -> StoreResult<Heartbeat> {
        validate::check_limit(node.slots)?;
        self.run(NodeBeat { node, led, next: Some(next), takes_nothing }).await
    }

    /// Records that a node which led the planning stops.
    pub async fn resign(&self, node: &NodeInfo) -> StoreResult<()> {
        self.run(NodeResign(node.incarnation.clone())).await
    }
}

/// Parked jobs that one heartbeat brings back.
const UNPARK_MAX: u32 = 10_000;
/// How long a node that stops may take to give up the leadership.
const RESIGN_WITHIN: Duration = Duration::from_secs(1);
/// How soon a node reports that a submitter takes no jobs, or takes jobs again.
const REPORT_SOON: Duration = Duration::from_millis(500);
/// How soon a node that was told to drain reports that it leases nothing any more.
const QUIET_SOON: Duration = Duration::from_millis(200);

/// The loop that tells the database that the node is alive and how its loops are, and hears what the node is told.
pub(crate) struct Heart {
    shared: Arc<Shared>,
    /// Changes when nodes are told something.
    told: watch::Receiver<()>,
}

impl Heart {
    pub(crate) fn new(shared: &Arc<Shared>) -> Heart {
        Heart { shared: shared.clone(), told: shared.loop_store.drains_changed() }
    }
}

impl Loop for Heart {
    const NAME: &'static str = "heartbeat";

    async fn run_once(&mut self, _hurried: bool) -> StoreResult<Duration> {
        let shared = &*self.shared;
        let mut pause = shared.options.heartbeat_interval();
        let quiet = shared.drain.is_quiet();
        let info = NodeInfo {
            runners: shared.statuses.json(&report::of_node(shared)),
            slots: shared.tunable().slots,
            ..shared.info.clone()
        };
        let won = shared.leadership.take_untold();
        let (asked, asked_at) = (Micros::from(jiff::Timestamp::now()), Instant::now());
        let led = won.as_ref().map(WonCycles::led);
        let heartbeat = shared.loop_store.heartbeat_draining(info, led, pause, quiet).await;
        match &heartbeat {
            Ok(_) => {
                shared.caution.note_beat(asked_at);
                shared.store.monitor.heartbeat_written();
            }
            Err(_) => won.into_iter().for_each(|won| shared.leadership.put_back(won)),
        }
        // Parked jobs come back even if the heartbeat could not be written.
        let unparked = unpark(shared).await;
        let seen_workers = workers::write_heartbeats(shared).await;
        let heartbeat = heartbeat?;
        shared.statuses.clocks(asked, heartbeat.now, jiff::Timestamp::now().into());
        // With each heartbeat, so that a jump of yesterday does not delay a reclaim of today.
        shared.note_clock(asked_at, heartbeat.now);
        if heartbeat.took_lead
            && let Some(left_out) = shared.store.monitor.log.note(&"leads")
        {
            tracing::info!(node.id = %shared.id, left_out, "this node leads the planning now");
        }
        if shared.drain.obey(heartbeat.drains) {
            tracing::info!(node.id = %shared.id, drains = heartbeat.drains, "told to drain, or to lease jobs again");
            shared.nudge.notify_one();
        }
        match (heartbeat.drains, quiet) {
            (true, false) => pause = QUIET_SOON.min(pause),
            // Another node plans from now on.
            (true, true) => resign(shared).await,
            (false, _) => {}
        }
        settings::follow(shared, heartbeat.settings).await;
        take_back_charges(shared).await;
        unparked?;
        seen_workers?;
        if shared.store.monitor.has_failed_write() {
            pause = pause.min(AFTER_ERROR);
        }
        Ok(pause)
    }

    async fn woken(&mut self) {
        tokio::select! {
            // The sender lives as long as the store.
            Ok(()) = self.told.changed() => {}
            // Whether writes work again.
            () = self.shared.store.monitor.beat_soon.notified() => tokio::time::sleep(AFTER_ERROR).await,
            // At most so often, however fast the breaker of a submitter opens and closes.
            () = self.shared.report_soon.notified() => tokio::time::sleep(REPORT_SOON).await,
        }
    }

    fn failed(&mut self, error: &StoreError) {
        self.shared.caution.note_failure(error);
    }
}

/// Gives up the leadership of planning. Nothing depends on it, so nothing waits for it.
pub(crate) async fn resign(shared: &Shared) {
    if !shared.leadership.ever() {
        return;
    }
    let resigned = async {
        if let Some(won) = shared.leadership.take_untold() {
            let (info, quiet) = (shared.info.clone(), shared.drain.is_quiet());
            shared
                .loop_store
                .heartbeat_draining(info, Some(won.led()), shared.options.heartbeat_interval(), quiet)
                .await?;
        }
        shared.loop_store.resign(&shared.info).await
    };
    if matches!(tokio::time::timeout(RESIGN_WITHIN, resigned).await, Ok(Ok(()))) {
        shared.leadership.over();
    } else {
        tracing::debug!(node.id = %shared.id, "this node could not record that it no longer plans");
    }
}

/// Jobs that a node parked because it did not know their kinds, and that this node knows, or remote workers that poll here.
async fn unpark(shared: &Shared) -> StoreResult<()> {
    if shared.drain.is_asked() {
        return Ok(());
    }
    // A node may park a job while the first worker for its kind comes: neither sees the other.
    let mut kinds: Vec<Name> = shared.polls.wanted().into_keys().collect();
    if shared.works() {
        kinds.extend(shared.kinds.keys().cloned());
    }
    if kinds.is_empty() {
        return Ok(());
    }
    if shared.loop_store.unpark_kinds(kinds, UNPARK_MAX).await? > 0 {
        shared.has_queued();
    }
    Ok(())
}
