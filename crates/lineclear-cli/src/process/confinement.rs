//! The user and the limits of a command.

use std::path::PathBuf;

use nix::unistd::{Gid, Uid, User, setgid, setuid};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// Seconds between the signal that asks a command to end and the one that kills it, once it has used up its CPU time.
const CPU_GRACE: u64 = 5;

/// What a command may use, and as whom it runs. By default all that this process may, as the same user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    pub(crate) user: Option<CommandUser>,
    pub(crate) limits: Vec<Limit>,
}

/// A user of the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandUser {
    pub(crate) name: String,
    uid: u32,
    gid: u32,
    pub(crate) home: PathBuf,
    pub(crate) shell: PathBuf,
}

/// A limit of the system, for each process of a command; `processes` counts all processes of its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Limit {
    /// Seconds.
    Cpu(u64),
    /// Bytes of the address space.
    Memory(u64),
    /// Open files.
    Files(u64),
    Processes(u64),
    /// Bytes of a file that it writes.
    FileSize(u64),
}

impl CommandUser {
    /// Looks the user up.
    pub(crate) fn find(name: &str) -> Result<CommandUser, String> {
        let found =
            User::from_name(name).map_err(|error| format!("cannot look up user {name:?}: {error}"))?;
        let user = found.ok_or_else(|| format!("user {name:?} does not exist"))?;
        Ok(CommandUser {
            name: user.name,
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
            home: user.dir,
            shell: user.shell,
        })
    }

    #[cfg(not(target_vendor = "apple"))]
    fn set_groups(&self) -> Result<(), String> {
        let name = std::ffi::CString::new(self.name.as_str()).map_err(|error| error.to_string())?;
        nix::unistd::initgroups(&name, Gid::from_raw(self.gid))
            .map_err(|error| format!("cannot take on the groups of {}: {error}", self.name))
    }

    #[cfg(target_vendor = "apple")]
    fn set_groups(&self) -> Result<(), String> {
        Err("this system cannot run commands as another user".to_owned())
    }

    fn become_user(&self) -> Result<(), String> {
        let cannot = |error: nix::Error| format!("cannot run as {}: {error}", self.name);
        self.set_groups()?;
        setgid(Gid::from_raw(self.gid)).map_err(cannot)?;
        setuid(Uid::from_raw(self.uid)).map_err(cannot)?;
        // The folder of the server may be closed to this user.
        std::env::set_current_dir(&self.home)
            .or_else(|_| std::env::set_current_dir("/"))
            .map_err(|error| format!("cannot enter a folder as {}: {error}", self.name))
    }
}

impl Limit {
    /// The resource, the limit that is enforced gently, and the one that is final.
    fn resource(self) -> (Resource, u64, u64) {
        match self {
            Limit::Cpu(seconds) => (Resource::Cpu, seconds, seconds.saturating_add(CPU_GRACE)),
            Limit::Memory(bytes) => (Resource::As, bytes, bytes),
            Limit::Files(count) => (Resource::Nofile, count, count),
            Limit::Processes(count) => (Resource::Nproc, count, count),
            Limit::FileSize(bytes) => (Resource::Fsize, bytes, bytes),
        }
    }

    fn apply(self) -> Result<(), String> {
        let (resource, current, maximum) = self.resource();
        // A limit of the server that is lower stays.
        let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Rlimit { current: Some(current.min(most)), maximum: Some(maximum.min(most)) };
        setrlimit(resource, limit).map_err(|error| format!("cannot set the limit {self:?}: {error}"))
    }
}

impl Confinement {
    pub(super) fn parse(text: &str) -> Result<Confinement, String> {
        serde_json::from_str(text).map_err(|error| format!("invalid confinement: {error}"))
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Limits this process for good.
    pub(super) fn apply(&self) -> Result<(), String> {
        // First, because a server may have limits that only root can raise.
        self.limits.iter().try_for_each(|limit| limit.apply())?;
        self.user.as_ref().map_or(Ok(()), CommandUser::become_user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confinement_is_passed_on_as_text() {
        let user = CommandUser::find("root").unwrap();
        assert_eq!((user.uid, user.gid), (0, 0));
        assert!(CommandUser::find("no-such-user").unwrap_err().contains("does not exist"));
        let confinement = Confinement { user: Some(user), limits: vec![Limit::Cpu(3), Limit::Files(16)] };
        assert_eq!(Confinement::parse(&confinement.to_text()).unwrap(), confinement);
        assert!(Confinement::parse("").is_err());
    }
}
