//! The folder of a server's files, and the account that it runs as.

use std::{
    cell::Cell,
    env,
    fs::{self, File, TryLockError},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// Folders of runs. One whose lock is free belongs to a run that was killed.
const RUN_PREFIX: &str = "lineclear-run-";
/// Folders of servers that were left running.
pub const LEFT_PREFIX: &str = "lineclear-up-";
const LOCK: &str = "lock";
/// Names the folder in which tests keep files that all of them share.
pub const SCRATCH_VARIABLE: &str = "LINECLEAR_TEST_FOLDER";
const MEMORY: &str = "/dev/shm";
/// Servers and tests use about one gigabyte at a time.
const ROOM_IN_MEMORY: u64 = 4 << 30;

/// How long servers live.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as the thread that starts them.
    Ours,
    /// Until `down` stops them.
    UntilStopped,
}

/// A folder for servers' files, and the account that owns it. The folder is removed when this is dropped.
pub struct Place {
    dir: PathBuf,
    lifetime: Lifetime,
    /// User and group of the servers; `None` unless we are root.
    account: Option<(u32, u32)>,
    setpriv: bool,
    keep: Cell<bool>,
    /// Held while we live.
    _lock: Option<File>,
}

impl Place {
    /// Makes a new folder, and removes those of runs that were killed.
    pub fn new(lifetime: Lifetime) -> Result<Self> {
        Self::below(&temporary(), lifetime)
    }

    /// Makes a folder in memory, where there is room: copying a database on a busy disk takes ten times as long.
    pub fn in_memory(lifetime: Lifetime) -> Result<Self> {
        if has_room(MEMORY)
            && let Ok(place) = Self::below(Path::new(MEMORY), lifetime)
        {
            return Ok(place);
        }
        Self::new(lifetime)
    }

    fn below(base: &Path, lifetime: Lifetime) -> Result<Self> {
        let root = rustix::process::geteuid().is_root();
        sweep(base);
        let prefix = if lifetime == Lifetime::Ours { RUN_PREFIX } else { LEFT_PREFIX };
        let dir = (0..1000)
            .map(|n| base.join(format!("{prefix}{}-{n}", std::process::id())))
            .find(|dir| fs::create_dir(dir).is_ok())
            .with_context(|| format!("making a folder in {}", base.display()))?;

        let account = if root { Some(account()?) } else { None };
        let setpriv = find_in_path("setpriv").is_some();
        if root && !setpriv {
            bail!(
                "servers refuse to run as root, and setpriv (util-linux), which changes the user, is not in PATH"
            );
        }
        let lock = if lifetime == Lifetime::Ours { Some(lock(&dir)?) } else { None };
        let place = Self { dir, lifetime, account, setpriv, keep: Cell::new(false), _lock: lock };
        place.give(&place.dir)?;
        Ok(place)
    }

    /// Makes the account the owner of a file or folder of ours.
    pub fn give(&self, path: &Path) -> Result<()> {
        if let Some((uid, gid)) = self.account {
            chown(path, Some(uid), Some(gid)).with_context(|| format!("giving away {}", path.display()))?;
        }
        Ok(())
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes a folder in it, owned by our own account.
    pub fn subfolder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.dir.join(name);
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(folder)
    }

    /// Leaves the folder where it is when this is dropped.
    pub fn keep(&self) {
        self.keep.set(true);
    }

    /// A command that runs as the account, in the folder, and ends by `death` when our thread ends.
    pub fn command(&self, program: &Path, death: &str) -> Command {
        let mut command;
        if self.setpriv {
            command = Command::new("setpriv");
            if let Some((uid, gid)) = self.account {
                command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]);
            }
            if self.lifetime == Lifetime::Ours {
                command.args(["--pdeathsig", death]);
            }
            command.arg("--").arg(program);
        } else {
            command = Command::new(program);
        }
        // The account may have no access to our working directory.
        command.current_dir(&self.dir);
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.keep.get() {
            // The next run removes files that cannot be removed now.
            drop(fs::remove_dir_all(&self.dir));
        }
    }
}

fn temporary() -> PathBuf {
    // The temporary folder of root may be closed to the account that the servers run as.
    if rustix::process::geteuid().is_root() { PathBuf::from("/tmp") } else { env::temp_dir() }
}

fn has_room(folder: &str) -> bool {
    rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail * disk.f_frsize >= ROOM_IN_MEMORY)
}

/// The account for servers: `postgres` where Debian made it, or else `nobody`.
fn account() -> Result<(u32, u32)> {
    let passwd = fs::read_to_string("/etc/passwd").context("reading /etc/passwd")?;
    let find = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2);
        Some((ids.next()?.parse().ok()?, ids.next()?.parse().ok()?))
    };
    find("postgres")
        .or_else(|| find("nobody"))
        .context("servers refuse to run as root, and there is no account postgres or nobody")
}

/// Takes the lock before it gets its name, so that no sweep finds it free.
fn lock(dir: &Path) -> Result<File> {
    let unnamed = dir.join("lock.new");
    let file = File::create(&unnamed)?;
    file.lock()?;
    fs::rename(unnamed, dir.join(LOCK))?;
    Ok(file)
}

/// Removes folders of runs that were killed: the lock of a dead process is free.
fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(RUN_PREFIX);
        if let Some(lock) = ours.then(|| File::open(entry.path().join(LOCK)).ok()).flatten() {
            match lock.try_lock() {
                Ok(()) => drop(fs::remove_dir_all(entry.path())),
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
            }
        }
    }
}

/// The program's path, if `PATH` has it. Debian's own folders for servers count, since users may not have
/// them.
pub fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders =
        env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
