//! The guard of a server: a process that kills its commands if the server was killed or is frozen. It is told of each command before
//! the command begins.
//!
//! A frozen server does not renew its leases, and other nodes take its jobs when these end. Its commands must have ended by then, so
//! the guard is told the end of each lease.

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

/// Handle to the guard. A separate thread talks to it, so that handlers that block all other threads do not look like a frozen server.
#[derive(Clone)]
pub(super) struct Guards(mpsc::UnboundedSender<News>);

impl Guards {
    /// The guard itself is started with the first command.
    pub(super) fn new(lease: Duration) -> Guards {
        let (sender, news) = mpsc::unbounded_channel();
        // Without the thread, `begins` fails and no command starts.
        drop(std::thread::Builder::new().name("lineclear-guard".to_owned()).spawn(move || {
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(GuardThread::new(lease).run(news)),
                Err(error) => {
                    tracing::error!(%error, "cannot start the guard of commands; commands are refused")
                }
            }
        }));
        Guards(sender)
    }

    /// To be called before a command begins.
    pub(super) async fn begins(&self, group: Pid, trust: Trust) -> Result<(), Failure> {
        let gone = || Failure::failed("the guard of commands is not running; the command was not run");
        let (sender, told) = oneshot::channel();
        self.0.send(News::Begins(group, trust, sender)).map_err(|_| gone())?;
        told.await.map_err(|_| gone())?
    }

    /// To be called after it has ended.
    pub(super) fn ended(&self, group: Pid) {
        // Without the thread there is nothing to guard.
        drop(self.0.send(News::Ended(group)));
    }
}

struct GuardThread {
    guard: Option<Guard>,
    groups: HashMap<Pid, Trust>,
    /// Time from the end of trust to the end of the commands. The lease lasts longer.
    grace: Duration,
    /// How often the guard is told.
    every: Duration,
}

impl GuardThread {
    fn new(lease: Duration) -> GuardThread {
        let every = (lease / 20).clamp(Duration::from_millis(50), Duration::from_secs(1));
        GuardThread { guard: None, groups: HashMap::new(), grace: lease / 20, every }
    }

    async fn run(mut self, mut news: mpsc::UnboundedReceiver<News>) {
        let mut tick = tokio::time::interval(self.every);
        loop {
            tokio::select! {
                told = news.recv() => match told {
                    Some(News::Begins(group, trust, answer)) => {
                        let guarded = self.begins(group, trust).await;
                        // The caller may have given up, and starts no command.
                        drop(answer.send(guarded));
                    }
                    Some(News::Ended(group)) => self.forget(group).await,
                    None => break,
                },
                () = ended(&mut self.guard) => {
                    tracing::warn!("the guard of commands was killed; starting another");
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
                tracing::error!(
                    "cannot start a guard of commands: if this server is killed, they keep running"
                )
            }
        }
    }

    async fn tell(&mut self) {
        let Some(guard) = &mut self.guard else { return };
        for (group, trust) in &self.groups {
            let left = trust.left();
            // A command without a lease is killed by this process at once, and by the guard if this process cannot.
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
        Some(guard) => guard.wait().await,
        None => std::future::pending().await,
    }
}
