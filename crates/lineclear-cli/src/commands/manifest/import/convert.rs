//! Converts the lines of a crontab to a manifest file and the `commands` setting of a server.

use lineclear_model::{Manifest, ManifestFile, Name, Schedule};

use super::crontab::{Crontab, Entry, Remark};
use super::environment::Zone;
use super::keys::keys;
use super::schedule::{CronSchedule, schedule_of};
use crate::kinds::check_argv;

/// Comment at the top of the file.
const HEAD: &str = "\
# Converted from a crontab by `lineclear manifest import`; edit it as you like.
#
# As with cron: ticks that are more than a minute late are skipped (misfire), a slow command may run several times at once (overlap),
# failures are not retried (retries) and do not stop the next tick (on_dead). Every exit code other than 0 is a failure and becomes
# a dead letter: `lineclear dead-letter families` lists them.
# Often better: overlap = \"skip\", and retries = 3 for commands that are idempotent.
#
# Unlike cron: a command that runs longer than a day is ended (timeout); output goes to the log of the job and is not mailed;
# commands run as the server's user, in the server's folder, with its environment. If a server dies, another one runs
# its commands again.
";

/// The result of the conversion.
#[derive(Default)]
pub(super) struct Converted {
    /// The manifest file.
    pub(super) text: String,
    pub(super) manifests: Vec<Manifest>,
    /// Command lines that servers must allow, without duplicates.
    pub(super) commands: Vec<Vec<String>>,
    pub(super) left_out: Vec<Remark>,
    pub(super) notes: Vec<Remark>,
}

/// Converts all lines that can be converted. `zone` is the default time zone, `prefix` that of the keys.
pub(super) fn convert(mut crontab: Crontab, zone: &str, prefix: Option<&Name>) -> Converted {
    let mut result = Converted { text: HEAD.to_owned(), ..Converted::default() };
    // Keys are made of all lines, so that correcting a schedule later does not change other keys.
    let mut keys = keys(&crontab.entries);
    if let Some(prefix) = prefix {
        keys.iter_mut().for_each(|key| *key = format!("{prefix}-{key}"));
    }
    let mut allowed = std::collections::BTreeSet::new();
    for (entry, key) in crontab.entries.iter().zip(keys) {
        match convert_entry(entry, &key, zone) {
            Ok((text, manifest, notes)) => {
                result.text.push_str(&text);
                result.manifests.push(manifest);
                result.notes.extend(notes.into_iter().map(|why| Remark::new(entry.line, why)));
                let argv = entry.environment.argv(&entry.command);
                if allowed.insert(argv.clone()) {
                    result.commands.push(argv);
                }
            }
            Err(remark) => result.left_out.push(remark),
        }
    }
    result.left_out.append(&mut crontab.left_out);
    result.notes.append(&mut crontab.notes);
    result.left_out.sort_by_key(|remark| remark.line);
    result.notes.sort_by_key(|remark| remark.line);
    result
}

/// One manifest, and notes about its schedule.
fn convert_entry(entry: &Entry, key: &str, zone: &str) -> Result<(String, Manifest, Vec<String>), Remark> {
    let zone = match &entry.environment.zone {
        Zone::Default => zone,
        Zone::Named(zone) => zone,
        Zone::Bad(line) => {
            return Err(Remark::new(entry.line, format!("CRON_TZ on line {line} is not a time zone")));
        }
    };
    let CronSchedule { schedule, notes } = schedule_of(&entry.when, zone).map_err(|bad| Remark {
        picture: bad.picture(),
        hint: bad.hint,
        ..Remark::new(entry.line, bad.message)
    })?;
    let argv = entry.environment.argv(&entry.command);
    check_argv(&argv).map_err(|why| Remark::new(entry.line, why))?;
    let text = manifest_toml(entry, key, &schedule, &argv);
    let file = ManifestFile::from_toml(&text);
    let manifest =
        file.map_err(|bad| bad.to_string()).and_then(|mut file| file.manifest.pop().ok_or_else(String::new));
    match manifest {
        Ok(manifest) => Ok((text, manifest, notes)),
        Err(why) => Err(Remark::new(entry.line, why)),
    }
}

fn manifest_toml(entry: &Entry, key: &str, schedule: &Schedule, argv: &[String]) -> String {
    let Entry { line, comment, when, user, .. } = entry;
    let mut text =
        format!("\n# line {line}{}\n", user.as_ref().map_or(String::new(), |user| format!(", as {user}")));
    for line in comment {
        text.push_str(format!("# {}", crate::output::sanitize(line)).trim_end());
        text.push('\n');
    }
    // The user may contain control characters.
    let mut text = text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
    let fields = schedule.fields();
    let rules =
        [("gap", fields.gap.map(|gap| gap.as_str())), ("fold", fields.fold.map(|fold| fold.as_str()))];
    let rules: String = rules
        .iter()
        .filter_map(|(name, rule)| Some(format!(", {name} = {}", toml_string((*rule)?))))
        .collect();
    let argv = toml_strings(argv);
    text.push_str(&format!(
        "[[manifest]]\nkey = {}\nkind = \"command\"\nschedule = {{ cron = {}, tz = {}{rules} }}\ninput = {{ argv = {argv} }}\n\
         misfire = {{ policy = \"skip\" }}\noverlap = \"allow\"\nretries = 0\non_dead = \"go_on\"\ntimeout = \"24h\"\n",
        toml_string(key),
        toml_string(when),
        toml_string(fields.tz.as_deref().unwrap_or("UTC")),
    ));
    text
}

/// A TOML string. Control characters are escaped, because printing would replace them.
fn toml_string(text: &str) -> String {
    // TOML escapes like JSON, and one character more.
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

pub(super) fn toml_strings(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| toml_string(text)).collect();
    format!("[{}]", texts.join(", "))
}
