//! The holder of locks: a process.

use std::fmt;

use uuid::Uuid;

/// A process that holds locks. The incarnation tells it from others with the same machine and process id: in containers,
/// every process may be `1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The machine's name.
    pub machine: String,
    /// The process id.
    pub pid: u32,
    /// Fresh for every set of locks that is opened.
    pub incarnation: Uuid,
}

impl Holder {
    /// This process.
    pub fn this() -> Holder {
        Holder { machine: machine(), pid: std::process::id(), incarnation: Uuid::new_v4() }
    }
}

impl fmt::Display for Holder {
    /// `machine/pid/incarnation`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.machine, self.pid, self.incarnation)
    }
}

#[cfg(target_os = "linux")]
fn machine() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(target_os = "linux"))]
fn machine() -> String {
    std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned())
}
