//! The nodes of the demo: processes that are started, killed and restarted.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use super::node::DemoEvent;
use crate::failure::Failure;

/// How long nodes may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// An event of a node.
pub(super) struct NodeEvent {
    pub(super) node: String,
    pub(super) event: DemoEvent,
}

pub(super) struct Cluster {
    db: String,
    nodes: Vec<Member>,
    events: mpsc::Receiver<NodeEvent>,
    sender: mpsc::Sender<NodeEvent>,
}

struct Member {
    name: String,
    /// `None` while it is killed.
    child: Option<Child>,
}

impl Cluster {
    pub(super) fn start(db: &str, nodes: u8) -> Result<Cluster, Failure> {
        let (sender, events) = mpsc::channel(1_000);
        let mut cluster = Cluster { db: db.to_owned(), nodes: Vec::new(), events, sender };
        for number in 1..=nodes {
            let name = format!("node-{number}");
            let child = Some(cluster.spawn(&name)?);
            cluster.nodes.push(Member { name, child });
        }
        Ok(cluster)
    }

    fn spawn(&self, name: &str) -> Result<Child, Failure> {
        let cannot = |error: std::io::Error| Failure::failed(format!("cannot start {name}: {error}"));
        let program = std::env::current_exe().map_err(cannot)?;
        let mut child = Command::new(program)
            .args(["demo-node", "--name", name])
            // Not on the command line: it may contain a password.
            .env("LINECLEAR_DEMO_DB", &self.db)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot)?;
        let Some(lines) = child.stdout.take() else { return Ok(child) };
        let (sender, node) = (self.sender.clone(), name.to_owned());
        tokio::spawn(async move {
            let mut lines = BufReader::new(lines).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(event) = serde_json::from_str(&line) else { continue };
                if sender.send(NodeEvent { node: node.clone(), event }).await.is_err() {
                    break;
                }
            }
        });
        Ok(child)
    }

    /// The next event of any node.
    pub(super) async fn next(&mut self) -> Option<NodeEvent> {
        self.events.recv().await
    }

    /// Names of the running nodes.
    pub(super) fn running(&self) -> Vec<String> {
        self.nodes.iter().filter(|node| node.child.is_some()).map(|node| node.name.clone()).collect()
    }

    /// The node with this process id.
    pub(super) fn name_of(&self, pid: u32) -> Option<String> {
        let is = |node: &&Member| node.child.as_ref().and_then(Child::id) == Some(pid);
        self.nodes.iter().find(is).map(|node| node.name.clone())
    }

    /// Kills it with SIGKILL.
    pub(super) fn kill(&mut self, name: &str) {
        if let Some(mut child) = self.member(name).and_then(|node| node.child.take()) {
            let _ = child.start_kill();
            tokio::spawn(async move { child.wait().await });
        }
    }

    pub(super) fn restart(&mut self, name: &str) -> Result<(), Failure> {
        let child = self.spawn(name)?;
        if let Some(member) = self.member(name) {
            member.child = Some(child);
        }
        Ok(())
    }

    fn member(&mut self, name: &str) -> Option<&mut Member> {
        self.nodes.iter_mut().find(|node| node.name == name)
    }

    /// Asks all nodes to stop, and waits for them. Those that take too long are killed on drop.
    pub(super) async fn stop(mut self) {
        let children: Vec<Child> = self.nodes.iter_mut().filter_map(|node| node.child.take()).collect();
        let all = children.into_iter().map(|mut child| {
            drop(child.stdin.take());
            tokio::spawn(async move { child.wait().await })
        });
        let all: Vec<_> = all.collect();
        let _ = tokio::time::timeout(STOP_TIMEOUT, async {
            for one in all {
                let _ = one.await;
            }
        })
        .await;
    }
}
