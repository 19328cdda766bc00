//! Nodes: who is alive.

use lineclear_model::Micros;

use crate::store::db::{Session, Value, Verb};
use crate::store::sql::Statement;
use crate::store::{NodeId, StoreResult};

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
    /// Jobs it can run at once.
    pub slots: u32,
    /// Status of its runners, as JSON.
    pub runners: String,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The node's id, the same for all its life.
    pub id: NodeId,
    /// The database's clock.
    pub now: Micros,
}

/// Verb: a node is alive.
pub(crate) struct NodeBeat(pub(crate) NodeInfo);

impl Verb for NodeBeat {
    type Answer = Beat;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Beat> {
        let node = &self.0;
        let text = |text: &str| Value::Text(Some(text.to_owned()));
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
        ];
        let rows = session.rows(Statement::NodeBeat, params).await?;
        let row = rows.first().ok_or_else(|| super::no_answer("node_beat"))?;
        Ok(Beat { id: NodeId(row.get("id")?), now: row.get("now")? })
    }
}
