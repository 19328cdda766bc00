//! Manifests of the lines of a crontab: as a file, and what a server must allow.

use lineclear_model::{Manifest, ManifestFile, Name, Schedule};

use super::clock::{When, when};
use super::crontab::{Crontab, Entry, Remark};
use super::environment::Zone;
use super::keys::keys;
use crate::kinds::check_argv;

/// Above the manifests.
const HEAD: &str = "\
# Made of a crontab by `lineclear manifest import`, and yours to change.
#
# As with cron: a tick that nobody was there for within a minute is forgotten (misfire), copies run side by side when one takes long
# (overlap), what fails is not tried again (retries) and does not stop the next tick (on_dead). Every exit code but 0 is
# a failure, and a dead letter that waits for somebody: `lineclear dead families` shows them.
# Often better: overlap = \"skip\", and retries = 3 for what may be begun twice.
#
# Not as with cron: what takes longer than a day is ended (timeout); what is written is in the log of the job, and
# mailed to nobody; commands run as the server's user, where the server runs, and find its variables. A command whose
# server dies is begun again by another one.
";

/// What became of a crontab.
#[derive(Default)]
pub(super) struct Import {
    /// The whole file.
    pub(super) text: String,
    pub(super) manifests: Vec<Manifest>,
    /// What servers must be allowed to run, each once.
    pub(super) commands: Vec<Vec<String>>,
    pub(super) left_out: Vec<Remark>,
    pub(super) notes: Vec<Remark>,
}

/// Makes manifests of all lines that can be; `zone` is that of lines that name none, and `prefix` stands before all keys.
pub(super) fn import(mut crontab: Crontab, zone: &str, prefix: Option<&Name>) -> Import {
    let mut import = Import { text: HEAD.to_owned(), ..Import::default() };
    // Keys are of all lines, so that a schedule that is mended later does not change those of others.
    let mut keys = keys(&crontab.entries);
    if let Some(prefix) = prefix {
        keys.iter_mut().for_each(|key| *key = format!("{prefix}-{key}"));
    }
    let mut allowed = std::collections::BTreeSet::new();
    for (entry, key) in crontab.entries.iter().zip(keys) {
        match one(entry, &key, zone) {
            Ok((text, manifest, differs)) => {
                import.text.push_str(&text);
                import.manifests.push(manifest);
                import.notes.extend(differs.map(|why| Remark::new(entry.line, why)));
                let argv = entry.environment.argv(&entry.command);
                if allowed.insert(argv.clone()) {
                    import.commands.push(argv);
                }
            }
            Err(remark) => import.left_out.push(remark),
        }
    }
    import.left_out.append(&mut crontab.left_out);
    import.notes.append(&mut crontab.notes);
    import.left_out.sort_by_key(|remark| remark.line);
    import.notes.sort_by_key(|remark| remark.line);
    import
}

/// One manifest, and what about it is not as cron has it.
fn one(entry: &Entry, key: &str, zone: &str) -> Result<(String, Manifest, Option<String>), Remark> {
    let zone = match &entry.environment.zone {
        Zone::Usual => zone,
        Zone::Named(zone) => zone,
        Zone::Bad(line) => {
            return Err(Remark::new(
                entry.line,
                format!("CRON_TZ on line {line} names no zone, so it has no times"),
            ));
        }
    };
    let When { schedule, differs } = when(&entry.when, zone).map_err(|bad| Remark {
        picture: bad.picture(),
        hint: bad.hint,
        ..Remark::new(entry.line, bad.message)
    })?;
    let argv = entry.environment.argv(&entry.command);
    check_argv(&argv).map_err(|why| Remark::new(entry.line, why))?;
    let text = written(entry, key, &schedule, &argv);
    let file = ManifestFile::from_toml(&text);
    let manifest =
        file.map_err(|bad| bad.to_string()).and_then(|mut file| file.manifest.pop().ok_or_else(String::new));
    match manifest {
        Ok(manifest) => Ok((text, manifest, differs)),
        Err(why) => Err(Remark::new(entry.line, why)),
    }
}

fn written(entry: &Entry, key: &str, schedule: &Schedule, argv: &[String]) -> String {
    let Entry { line, comment, when, user, .. } = entry;
    let mut text =
        format!("\n# line {line}{}\n", user.as_ref().map_or(String::new(), |user| format!(", as {user}")));
    for line in comment {
        text.push_str(format!("# {}", crate::output::plain(line)).trim_end());
        text.push('\n');
    }
    // A user has any characters.
    let mut text = text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
    let fields = schedule.fields();
    let rules =
        [("gap", fields.gap.map(|gap| gap.as_str())), ("fold", fields.fold.map(|fold| fold.as_str()))];
    let rules: String =
        rules.iter().filter_map(|(name, rule)| Some(format!(", {name} = {}", string((*rule)?)))).collect();
    let argv = strings(argv);
    text.push_str(&format!(
        "[[manifest]]\nkey = {}\nkind = \"command\"\nschedule = {{ cron = {}, tz = {}{rules} }}\ninput = {{ argv = {argv} }}\n\
         misfire = {{ policy = \"skip\" }}\noverlap = \"allow\"\nretries = 0\non_dead = \"go_on\"\ntimeout = \"24h\"\n",
        string(key),
        string(when),
        string(fields.tz.as_deref().unwrap_or("UTC")),
    ));
    text
}

/// Everything that is not plain is escaped: a tab that stood in it as it is would not survive being shown.
fn string(text: &str) -> String {
    // What JSON escapes is written in the same way in TOML, which wants one more.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

fn strings(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| string(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// A command as it stands among the `commands` of a server.
pub(super) fn allowed(argv: &[String]) -> String {
    strings(argv)
}
