//! Keys of manifests: the name of the program, the same at every import.

use std::collections::{BTreeMap, BTreeSet};

use super::crontab::Entry;
use super::program_name::program_name;

/// Longest name of a program, which leaves room for a suffix.
const NAME_MAX: usize = 60;
/// Extensions of scripts, which are removed.
const EXTENSIONS: &[&str] = &[".sh", ".bash", ".py", ".pl", ".rb", ".php", ".js"];

/// A key for each entry. If several entries have the same name, a hash of the command is appended, and of the schedule if the commands
/// are equal; so a key may change when a line with the same program is added.
pub(super) fn keys(entries: &[Entry]) -> Vec<String> {
    let names: Vec<String> = entries.iter().map(|entry| name(&entry.command)).collect();
    let by_command = |at: usize| format!("{}-{}", names[at], hash(&[&entries[at].command]));
    let by_all = |at: usize| {
        let Entry { when, command, .. } = &entries[at];
        format!("{}-{}", names[at], hash(&[command, when, &format!("{:?}", entries[at].environment.zone)]))
    };
    let mut keys = names.clone();
    make_unique(&mut keys, by_command);
    make_unique(&mut keys, by_all);
    // Equal lines, or a collision of hashes.
    let mut taken = BTreeSet::new();
    for key in &mut keys {
        let plain = key.clone();
        let mut n = 2;
        while !taken.insert(key.clone()) {
            *key = format!("{plain}-{n}");
            n += 1;
        }
    }
    keys
}

/// Renames all keys that occur more than once.
fn make_unique(keys: &mut [String], rename: impl Fn(usize) -> String) {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for key in keys.iter() {
        *times.entry(key.clone()).or_default() += 1;
    }
    for (at, key) in keys.iter_mut().enumerate() {
        if times.get(key).is_some_and(|times| *times > 1) {
            *key = rename(at);
        }
    }
}

/// The name of the program of a command.
fn name(command: &str) -> String {
    valid(program_name(command).unwrap_or_default())
}

/// Turns text into a valid key.
pub(super) fn valid(program: &str) -> String {
    let program = EXTENSIONS.iter().find_map(|extension| program.strip_suffix(extension)).unwrap_or(program);
    let mut text = String::new();
    for c in program.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' | '.' | '_' | '-' => text.push(c),
            _ if !text.ends_with('-') => text.push('-'),
            _ => {}
        }
    }
    let text: String = text.trim_matches(['-', '.', '_']).chars().take(NAME_MAX).collect();
    if text.is_empty() { "cron".to_owned() } else { text }
}

/// Six hexadecimal digits of an FNV-1a hash.
fn hash(texts: &[&str]) -> String {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{:06x}", (hash ^ (hash >> 24) ^ (hash >> 48)) & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::super::crontab::read;
    use super::*;

    #[test]
    fn a_line_is_named_after_what_it_runs() {
        for (command, want) in [
            ("/usr/local/bin/backup --all", "backup"),
            ("cd /srv/app && ./bin/Report.sh >/dev/null 2>&1", "report"),
            ("cd / && run-parts --report /etc/cron.hourly", "cron.hourly"),
            ("test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }", "cron.daily"),
            ("[ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean", "sessionclean"),
            ("PATH=/x A=b nice -n 10 /opt/x/clean_up", "clean_up"),
            ("flock -n /tmp/x.lock /usr/bin/sync-all", "sync-all"),
            ("timeout 10m php /srv/artisan schedule:run", "artisan"),
            ("sudo -u www-data /srv/tidy --all", "tidy"),
            ("sudo -n -H -u x -- env A=b nice -n 10 ionice -c idle /opt/index", "index"),
            ("flock -w 5 /run/lock/app /usr/bin/sync-all", "sync-all"),
            ("/usr/bin/flock --timeout 5 -E 0 lock -c 'timeout -k 5 -s KILL 10m sync-all'", "sync-all"),
            ("(flock -n 9 || exit 1; sync-all) 9> lock", "sync-all"),
            ("env -u LANG A=b C=d report", "report"),
            ("nice -n -5 report", "report"),
            ("nice -5 report", "report"),
            ("su - app -c 'bin/report --now'", "report"),
            ("su -s /bin/sh -c bin/report app", "report"),
            ("runuser -u app -- bin/report", "report"),
            ("taskset -c 0-3 chrt -i 0 report", "report"),
            ("python3.11 -W ignore -m app.report", "app.report"),
            ("python3 -c 'import app; app.report()'", "python3"),
            ("perl -e 'print 1'", "perl"),
            ("sudo -u x", "sudo"),
            ("flock -w 5 lock", "flock"),
            ("env A=b", "env"),
            ("nice -n", "nice"),
            ("bash -lc 'rake db:vacuum'", "rake"),
            ("if true; then echo; fi", "echo"),
            ("héllo wörld", "h-llo"),
            ("$CMD", "cron"),
            ("€", "cron"),
            ("sh", "sh"),
            (":", "cron"),
            ("", "cron"),
        ] {
            assert_eq!(name(command), want, "{command}");
        }
        assert_eq!(name(&"x".repeat(500)).len(), NAME_MAX);
    }

    fn of(lines: &[&str]) -> BTreeMap<String, String> {
        let entries = read(lines.join("\n").as_bytes(), false).entries;
        let keys = keys(&entries);
        let lines = entries.iter().map(|entry| format!("{} {}", entry.when, entry.command));
        lines.zip(keys).collect()
    }

    #[test]
    fn keys_are_unique_and_do_not_depend_on_order() {
        let lines = [
            "@daily a 1",
            "@daily a 2",
            "@hourly a 2",
            "@daily b",
            "@weekly c",
            "0 5 * * * c",
            "@daily sh -c 'd'",
        ];
        let keys = of(&lines);
        let distinct: BTreeSet<&String> = keys.values().collect();
        assert_eq!((keys.len(), distinct.len()), (lines.len(), lines.len()), "{keys:?}");
        assert_eq!(keys["@daily b"], "b");
        assert!(keys.values().all(|key| lineclear_model::Name::new(key.as_str()).is_ok()), "{keys:?}");
        let mut turned = lines;
        turned.reverse();
        assert_eq!(of(&turned), keys);
        // A line keeps its key when its schedule changes, unless another runs the same command.
        assert_eq!(of(&["@daily a 1", "@daily a 2"])["@daily a 1"], keys["@daily a 1"]);
    }

    #[test]
    fn the_same_line_twice_has_two_keys() {
        let entries = read(b"@daily a\n@daily a\n@daily a\n", false).entries;
        let keys = keys(&entries);
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 3, "{keys:?}");
    }
}
