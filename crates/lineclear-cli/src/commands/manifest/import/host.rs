//! What the import reads from this machine: its time zone, users and files.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lineclear_model::manifest::FILE_BYTES_MAX;
use lineclear_model::schedule::find_zone;

use crate::failure::Failure;

/// The default time zone, and where it comes from.
pub(super) struct DefaultZone {
    pub(super) name: String,
    pub(super) origin: &'static str,
}

/// The time zone of `--tz`, or that of the machine, as cron uses it.
pub(super) fn default_zone(flag: Option<&str>) -> Result<DefaultZone, Failure> {
    if let Some(name) = flag {
        let zone = find_zone(name).map_err(|bad| match bad.hint {
            Some(_) => Failure::from(bad),
            None => Failure::from(bad).hint("--tz expects a name such as Europe/Berlin"),
        })?;
        return Ok(DefaultZone { name: zone.iana_name().unwrap_or(name).to_owned(), origin: "from --tz" });
    }
    let zone = |name: &str, origin| Ok(DefaultZone { name: name.to_owned(), origin });
    match std::env::var("TZ") {
        Ok(text) if text.is_empty() => return zone("UTC", "TZ is empty"),
        Ok(text) => {
            let name = text.trim_start_matches(':');
            return match find_zone(name) {
                Ok(_) => zone(name, "from TZ"),
                Err(_) => Err(unnamed_zone(&format!("TZ={text} is not the name of a time zone"))),
            };
        }
        Err(_) => {}
    }
    if !Path::new("/etc/localtime").exists() {
        return zone("UTC", "this machine has none");
    }
    let linked = std::fs::read_link("/etc/localtime").ok();
    let linked = linked.as_deref().and_then(Path::to_str).and_then(|path| path.split("zoneinfo/").nth(1));
    let written = std::fs::read_to_string("/etc/timezone").ok();
    match linked.or(written.as_deref().map(str::trim)).filter(|name| find_zone(name).is_ok()) {
        Some(name) => zone(name, "from this machine"),
        None => Err(unnamed_zone("the time zone of this machine has no name")),
    }
}

/// Assuming UTC would be a guess.
fn unnamed_zone(why: &str) -> Failure {
    Failure::usage(why).hint("add --tz, such as --tz Europe/Berlin")
}

/// Names of users; none if the file cannot be read.
pub(super) fn users() -> BTreeSet<String> {
    let text = std::fs::read("/etc/passwd").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(|line| line.split(':').next()).map(str::to_owned).collect()
}

/// Folders of programs.
const PROGRAM_FOLDERS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Shell builtins and keywords that a path may follow.
const SHELL_WORDS: [&str; 17] = [
    "cd", "chdir", "command", "do", "elif", "else", "eval", "exec", "export", "if", "pushd", "set", "source",
    "then", "time", "until", "while",
];

/// Whether a word may be a user of another machine: a bare name that is not a program here.
pub(super) fn may_be_a_user(word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && word.trim_end_matches('$').chars().all(is_name)
        && !SHELL_WORDS.contains(&word)
        && !PROGRAM_FOLDERS.iter().any(|folder| Path::new(folder).join(word).exists())
}

/// Whether both paths are the same file; `-` is standard input.
pub(super) fn is_same(crontab: &Path, out: &Path) -> bool {
    let file = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let crontab = if crontab == Path::new("-") { Path::new("/dev/stdin") } else { crontab };
    file(crontab).is_some_and(|crontab| file(out) == Some(crontab))
}

/// Reads the crontab.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    // One byte more than allowed, to notice that it is too long.
    let most = FILE_BYTES_MAX as u64 + 1;
    if path == Path::new("-") {
        std::io::stdin().take(most).read_to_end(&mut bytes).map_err(cannot)?;
    } else {
        std::fs::File::open(path).map_err(cannot)?.take(most).read_to_end(&mut bytes).map_err(cannot)?;
    }
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{} has more than {FILE_BYTES_MAX} bytes", path.display())));
    }
    Ok(bytes)
}
