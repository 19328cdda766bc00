//! Who ends the commands of a server that was killed or is frozen: one guard for all of them, told of each before it begins.
//!
//! A frozen server does not renew its leases, and its jobs go to others when these end. So its commands must be over by then: the
//! guard is told until when each job is ours.

use std::collections::HashMap;
use std::time::Duration;

use lineclear::Trust;
use lineclear_lock::Moment;
use rustix::process::Pid;
use tokio::sync::{mpsc, oneshot};

use crate::failure::Failure;
use crate::process::Guard;

enum News {
    Begins(Pid, Trust, oneshot::Sender<Result<(), Failure>>),
    Ended(Pid),
}

/// Tells the guard. It has a thread of its own: handlers that block the others must not look like a frozen server.
#[derive(Clone)]
pub(super) struct Guards(mpsc::UnboundedSender<News>);

impl Guards {
    /// For a server with such leases. The guard itself is started with the first command.
    pub(super) fn new(lease: Duration) -> Guards {
        let (sender, news) = mpsc::unbounded_channel();
        // Without the thread nobody answers, and no command begins.
        drop(std::thread::Builder::new().name("lineclear-guard".to_owned()).spawn(move || {
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(Teller::new(lease).run(news)),
                Err(error) => tracing::error!(%error, "commands cannot be guarded, and are not run"),
            }
        }));
        Guards(sender)
    }

    /// Before a command begins.
    pub(super) async fn begins(&self, group: Pid, trust: Trust) -> Result<(), Failure> {
        let gone = || Failure::failed("nobody guards commands; it was not run");
        let (sender, told) = oneshot::channel();
        self.0.send(News::Begins(group, trust, sender)).map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// After it has ended.
    pub(super) fn ended(&self, group: Pid) {
        // Who cannot hear it guards nothing.
        drop(self.0.send(News::Ended(group)));
    }
}

struct Teller {
    guard: Option<Guard>,
    groups: HashMap<Pid, Trust>,
    /// From the end of trust to the end of the commands; the lease lasts longer.
    grace: Duration,
    /// How often it is told.
    every: Duration,
}

impl Teller {
    fn new(lease: Duration) -> Teller {
        let every = (lease / 20).clamp(Duration::from_millis(50), Duration::from_secs(1));
        Teller { guard: None, groups: HashMap::new(), grace: lease / 20, every }
    }

    async fn run(mut self, mut news: mpsc::UnboundedReceiver<News>) {
        let mut tick = tokio::time::interval(self.every);
        loop {
            tokio::select! {
                told = news.recv() => match told {
                    Some(News::Begins(group, trust, answer)) => {
                        let guarded = self.begins(group, trust).await;
                        // Who no longer waits for it has no command.
                        drop(answer.send(guarded));
                    }
                    Some(News::Ended(group)) => self.forget(group).await,
                    None => break,
                },
                () = ended(&mut self.guard) => {
                    tracing::warn!("the guard of commands was killed; another takes its place");
                    self.guard = None;
                    self.start_again().await;
                }
                _ = tick.tick() => {
                    if self.guard.is_none() {
                        self.start_again().await;
                    }
                    self.tell().await;
                }
            }
        }
        if let Some(guard) = self.guard.filter(|_| self.groups.is_empty()) {
            guard.dismiss().await;
        }
    }

    async fn begins(&mut self, group: Pid, trust: Trust) -> Result<(), Failure> {
        self.start().await?;
        self.groups.insert(group, trust);
        self.tell().await;
        Ok(())
    }

    async fn start(&mut self) -> Result<(), Failure> {
        if self.guard.is_none() {
            let mut guard = Guard::start("the server")?;
            guard.ready().await?;
            self.guard = Some(guard);
        }
        Ok(())
    }

    async fn start_again(&mut self) {
        if self.groups.is_empty() {
            return;
        }
        match self.start().await {
            Ok(()) => self.tell().await,
            Err(_) => {
                tracing::error!("if this server is killed, its commands go on: no guard can be started")
            }
        }
    }

    async fn tell(&mut self) {
        let Some(guard) = &mut self.guard else { return };
        for (group, trust) in &self.groups {
            let left = trust.left();
            // One that is not ours any more is ended by us at once, and by the guard if we cannot.
            let left = if left.is_zero() { left } else { left + self.grace };
            guard.tell(*group, Moment::now().plus(left)).await;
        }
    }

    async fn forget(&mut self, group: Pid) {
        self.groups.remove(&group);
        if let Some(guard) = &mut self.guard {
            guard.forget(group).await;
        }
    }
}

async fn ended(guard: &mut Option<Guard>) {
    match guard {
        Some(guard) => guard.ended().await,
        None => std::future::pending().await,
    }
}
