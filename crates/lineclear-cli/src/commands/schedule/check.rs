//! `lineclear schedule check`: the ticks of a manifest file, and where they collide.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use clap::Args;
use lineclear_model::{
    Manifest, ManifestFile, Micros, Tick, duration, manifest::FILE_BYTES_MAX, ticks_between,
};
use serde::Serialize;

use super::{moment, now};
use crate::{display::OutputStyle, failure::Failure, output, output::sanitize};

/// Maximum number of ticks over all manifests: a year of 200 hourly ones.
const TICKS_MAX: usize = 2_000_000;

/// Maximum number of printed collisions.
const COLLISIONS_SHOWN: usize = 20;

#[derive(Args)]
#[command(after_help = "\
An invalid file exits with 2 and names the line, the manifest and the field.

Examples:
  lineclear schedule check manifests.toml
  lineclear schedule check manifests.toml --from 2026-03-29T00:00:00Z --window 7d --limit 50
  lineclear schedule check manifests.toml --json")]
pub(crate) struct Check {
    /// Manifest file (TOML).
    file: PathBuf,
    /// Show ticks after this time (RFC 3339) [default: now].
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Micros>,
    /// Length of the window, at most 366d.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = window)]
    window: Duration,
    /// Maximum number of listed ticks; all are counted.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn window(text: &str) -> Result<Duration, String> {
    let window = duration::parse(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(366 * 86_400);
    if allowed.contains(&window) { Ok(window) } else { Err("the window must be between 1s and 366d".into()) }
}

/// The JSON.
#[derive(Serialize)]
struct Report {
    file: String,
    from: Micros,
    to: Micros,
    manifests: Vec<Summary>,
    fires: Vec<Fire>,
    fires_total: usize,
    /// Whether there were too many ticks to count all.
    cut: bool,
    collisions: Vec<Collision>,
    collisions_total: usize,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Summary {
    key: String,
    fires: usize,
    enabled: bool,
}

#[derive(Clone, Serialize)]
struct Fire {
    due_at: Micros,
    tick_at: Micros,
    manifest: String,
}

/// A minute in which more than one manifest fires.
#[derive(Serialize)]
struct Collision {
    minute: Micros,
    manifests: Vec<String>,
}

impl Check {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let name = self.file.display().to_string();
        let file = self.read()?;
        let from = self.from.unwrap_or_else(now);
        let to = from.offset(i64::try_from(self.window.as_micros()).expect("a window is at most 366 days"));
        let report = report(name, &file, from, to, self.limit);
        match OutputStyle::detect().is_terminal {
            _ if self.json => output::print_json(&report),
            true => output::print(&report.for_people()),
            false => output::print(&report.for_programs()),
        }
    }

    fn read(&self) -> Result<ManifestFile, Failure> {
        let name = self.file.display();
        let unreadable = |error: std::io::Error| Failure::usage(format!("cannot read {name}: {error}"));
        let size = std::fs::metadata(&self.file).map_err(unreadable)?.len();
        if size > FILE_BYTES_MAX as u64 {
            return Err(Failure::usage(format!(
                "{name} has {size} bytes; at most {FILE_BYTES_MAX} are allowed"
            )));
        }
        let text = std::fs::read_to_string(&self.file).map_err(unreadable)?;
        ManifestFile::from_toml(&text).map_err(|bad| {
            Failure::usage(format!("{name}: {bad}"))
                .hint("docs/schedules.md lists every field with an example")
        })
    }
}

fn report(name: String, file: &ManifestFile, from: Micros, to: Micros, limit: usize) -> Report {
    let mut fires = Vec::new();
    let mut manifests = Vec::new();
    for manifest in &file.manifest {
        let ticks = ticks(manifest, file, from, to, TICKS_MAX - fires.len());
        let (key, enabled) = (manifest.key.to_string(), manifest.enabled);
        manifests.push(Summary { key: key.clone(), fires: ticks.len(), enabled });
        fires.extend(ticks.iter().map(|tick| Fire {
            due_at: tick.due_at,
            tick_at: tick.tick_at,
            manifest: key.clone(),
        }));
    }
    fires.sort_by(|a, b| (a.due_at, &a.manifest).cmp(&(b.due_at, &b.manifest)));
    let mut collisions = collisions(&fires);
    let (fires_total, collisions_total) = (fires.len(), collisions.len());
    fires.truncate(limit);
    collisions.truncate(COLLISIONS_SHOWN);
    let notes = notes(file, &manifests);
    let cut = fires_total >= TICKS_MAX;
    Report { file: name, from, to, manifests, fires, fires_total, cut, collisions, collisions_total, notes }
}

fn ticks(manifest: &Manifest, file: &ManifestFile, from: Micros, to: Micros, most: usize) -> Vec<Tick> {
    let group = manifest.group.as_ref().and_then(|group| file.group.get(group.as_str()));
    if !manifest.enabled || group.is_some_and(|group| !group.enabled) {
        return Vec::new();
    }
    ticks_between(&manifest.rules(), &manifest.key, from, to, most)
}

/// Minutes in which more than one manifest fires, worst first.
fn collisions(fires: &[Fire]) -> Vec<Collision> {
    let mut minutes: BTreeMap<i64, BTreeSet<&str>> = BTreeMap::new();
    for fire in fires {
        minutes.entry(fire.due_at.get().div_euclid(60_000_000)).or_default().insert(&fire.manifest);
    }
    let several = minutes.into_iter().filter(|(_, manifests)| manifests.len() > 1);
    let mut collisions: Vec<Collision> = several
        .map(|(minute, manifests)| Collision {
            minute: Micros::EPOCH.offset(minute * 60_000_000),
            manifests: manifests.into_iter().map(str::to_owned).collect(),
        })
        .collect();
    collisions.sort_by_key(|collision| (usize::MAX - collision.manifests.len(), collision.minute));
    collisions
}

/// Valid settings that may be a mistake.
fn notes(file: &ManifestFile, manifests: &[Summary]) -> Vec<String> {
    let keys: BTreeSet<&str> = file.manifest.iter().map(|manifest| manifest.key.as_str()).collect();
    let mut notes = Vec::new();
    for (manifest, summary) in file.manifest.iter().zip(manifests) {
        let key = &manifest.key;
        notes.extend(manifest.schedule.warnings().iter().map(|warning| format!("{key}: {warning}")));
        if !manifest.enabled {
            notes.push(format!("{key} is disabled"));
        } else if manifest.schedule.is_timed() && summary.fires == 0 {
            notes.push(format!("{key} does not fire in this window"));
        }
        for parent in manifest.schedule.parents().iter().filter(|parent| !keys.contains(parent.as_str())) {
            notes.push(format!("{key} runs after {parent}, which is not in this file"));
        }
        if let Some(group) = manifest.group.as_ref().filter(|group| !file.group.contains_key(group.as_str()))
        {
            notes.push(format!("{key} is in the group {group}, which is not in this file"));
        }
    }
    notes
}

impl Report {
    /// A line for each item, which begins with its type.
    fn for_programs(&self) -> String {
        let manifests =
            self.manifests.iter().map(|m| format!("manifest\t{}\t{}\n", sanitize(&m.key), m.fires));
        let ticks = self
            .fires
            .iter()
            .map(|fire| format!("tick\t{}\t{}\t{}\n", fire.due_at, sanitize(&fire.manifest), fire.tick_at));
        let collisions = self.collisions.iter().map(|collision| {
            format!("collision\t{}\t{}\n", collision.minute, sanitize(&collision.manifests.join(",")))
        });
        let notes = self.notes.iter().map(|note| format!("note\t{}\n", sanitize(note)));
        manifests.chain(ticks).chain(collisions).chain(notes).collect()
    }

    fn for_people(&self) -> String {
        let Report { file, from, to, fires_total, .. } = self;
        let more = if self.cut { " or more" } else { "" };
        let mut text = format!(
            "{file}: {} manifests, {fires_total}{more} ticks after {from} up to {to}\n",
            self.manifests.len()
        );
        let per_manifest = self.manifests.iter().map(|m| vec![m.key.clone(), m.fires.to_string()]);
        text += &output::aligned_rows(&per_manifest.collect::<Vec<_>>());

        if !self.fires.is_empty() {
            text += "\nTicks:\n";
            let row = |fire: &Fire| {
                let planned = if fire.due_at == fire.tick_at {
                    String::new()
                } else {
                    format!("tick {}", fire.tick_at)
                };
                vec![fire.due_at.to_string(), fire.manifest.clone(), planned]
            };
            text += &output::aligned_rows(&self.fires.iter().map(row).collect::<Vec<_>>());
            if self.fires.len() < self.fires_total {
                text += &format!("  … and {} more (--limit)\n", self.fires_total - self.fires.len());
            }
        }
        text += &format!("\nMinutes in which more than one manifest fires: {}\n", self.collisions_total);
        let row = |collision: &Collision| {
            let minute = collision.minute.to_string();
            vec![minute, collision.manifests.len().to_string(), collision.manifests.join(", ")]
        };
        text += &output::aligned_rows(&self.collisions.iter().map(row).collect::<Vec<_>>());
        if self.collisions.len() < self.collisions_total {
            text += &format!("  … and {} more\n", self.collisions_total - self.collisions.len());
        }
        if !self.notes.is_empty() {
            text += &format!("\nNotes:\n  {}\n", self.notes.join("\n  "));
        }
        text
    }
}
