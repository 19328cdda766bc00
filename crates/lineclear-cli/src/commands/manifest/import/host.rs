//! What this machine knows: its zone, its users, its files.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lineclear_model::manifest::FILE_BYTES_MAX;
use lineclear_model::schedule::find_zone;

use crate::failure::Failure;

/// The zone of lines that name none, and how it is known.
pub(super) struct Usual {
    pub(super) name: String,
    pub(super) why: &'static str,
}

/// Cron goes by the machine's clock.
pub(super) fn zone(said: Option<&str>) -> Result<Usual, Failure> {
    if let Some(name) = said {
        let zone = find_zone(name).map_err(|bad| match bad.hint {
            Some(_) => Failure::from(bad),
            None => Failure::from(bad).hint("--tz is a name such as Europe/Berlin"),
        })?;
        return Ok(Usual { name: zone.iana_name().unwrap_or(name).to_owned(), why: "as --tz says" });
    }
    let usual = |name: &str, why| Ok(Usual { name: name.to_owned(), why });
    match std::env::var("TZ") {
        Ok(text) if text.is_empty() => return usual("UTC", "TZ is empty"),
        Ok(text) => {
            let name = text.trim_start_matches(':');
            return match find_zone(name) {
                Ok(_) => usual(name, "as TZ says"),
                Err(_) => Err(nameless(&format!("TZ={text} is no name of a zone"))),
            };
        }
        Err(_) => {}
    }
    if !Path::new("/etc/localtime").exists() {
        return usual("UTC", "this machine says none");
    }
    let linked = std::fs::read_link("/etc/localtime").ok();
    let linked = linked.as_deref().and_then(Path::to_str).and_then(|path| path.split("zoneinfo/").nth(1));
    let written = std::fs::read_to_string("/etc/timezone").ok();
    match linked.or(written.as_deref().map(str::trim)).filter(|name| find_zone(name).is_ok()) {
        Some(name) => usual(name, "as on this machine"),
        None => Err(nameless("the zone of this machine has no name")),
    }
}

/// UTC would be a guess.
fn nameless(why: &str) -> Failure {
    Failure::usage(why).hint("say it: --tz Europe/Berlin")
}

/// Names of users. A machine without such a file has none that could be mistaken.
pub(super) fn users() -> BTreeSet<String> {
    let text = std::fs::read("/etc/passwd").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().filter_map(|line| line.split(':').next()).map(str::to_owned).collect()
}

/// Where programs are that are named without a path.
const PROGRAMS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// What shells do themselves, and a path may stand behind.
const SHELLS_OWN: [&str; 17] = [
    "cd", "chdir", "command", "do", "elif", "else", "eval", "exec", "export", "if", "pushd", "set", "source",
    "then", "time", "until", "while",
];

/// Whether a word may be a user of another machine: a bare name, which runs nothing here.
pub(super) fn may_be_a_user(word: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && word.trim_end_matches('$').chars().all(is_name)
        && !SHELLS_OWN.contains(&word)
        && !PROGRAMS.iter().any(|folder| Path::new(folder).join(word).exists())
}

/// Whether both are one file, by whatever names; `-` is what standard input is read from.
pub(super) fn is_same(crontab: &Path, out: &Path) -> bool {
    let file = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let crontab = if crontab == Path::new("-") { Path::new("/dev/stdin") } else { crontab };
    file(crontab).is_some_and(|crontab| file(out) == Some(crontab))
}

/// The crontab.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |error: std::io::Error| Failure::usage(format!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    // One more than may be, to see that it is too much.
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
