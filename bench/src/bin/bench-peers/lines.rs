//! The file of measurements: one JSON object per line, the first one about the machine.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use peer_harness::Settings;
use serde::{Deserialize, Serialize};

use crate::plan::{Measure, Size, Step};

/// Where it was measured, and what. A run goes on only where all of this is the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) size: Size,
    pub(crate) rounds: u32,
    /// Of Lineclear.
    pub(crate) commit: String,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    /// Settings of the server that matter here.
    pub(crate) postgres: BTreeMap<String, String>,
    /// By subject.
    pub(crate) subjects: BTreeMap<String, About>,
}

/// A subject, as its program describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) version: String,
    pub(crate) best: String,
    pub(crate) default: String,
}

/// A measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) round: u32,
    pub(crate) measure: Measure,
    pub(crate) subject: String,
    /// The best settings, or the defaults.
    pub(crate) best: bool,
    /// Jobs that were in the queue before.
    pub(crate) queued: u64,
    /// Jobs that it enqueued.
    pub(crate) enqueued: u64,
    /// Jobs that the time is of.
    pub(crate) jobs: u64,
    /// Handlers that began.
    pub(crate) ran: u64,
    /// Jobs that were not completed afterwards, by SQL.
    pub(crate) left: u64,
    pub(crate) seconds: f64,
    /// Jobs per second.
    pub(crate) rate: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) p99_ms: Option<f64>,
    /// Jobs that the latency is of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) samples: Option<usize>,
    pub(crate) wal_bytes: u64,
    /// Cores that the server used, and the program, from its start to its end.
    pub(crate) server_cores: f64,
    pub(crate) program_cores: f64,
    /// Share of all cores that anything else used.
    pub(crate) foreign: f64,
    /// Tries before that failed: a program that hung or ended, or a wrong count.
    pub(crate) failures: Vec<String>,
    /// Seconds since 1970.
    pub(crate) at: u64,
}

impl Line {
    pub(crate) fn is_of(&self, step: &Step) -> bool {
        self.round == step.round
            && self.measure == step.measure
            && self.subject == step.subject.name
            && self.best == (step.settings == Settings::Best)
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    machine: Machine,
}

/// All lines of a file; none if there is no file.
pub(crate) fn read(path: &Path) -> Result<Option<(Machine, Vec<Line>)>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<Option<(Machine, Vec<Line>)>> {
    // The last line of a run that was cut off may be incomplete.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines();
    let Some(head) = lines.next() else { return Ok(None) };
    let machine = serde_json::from_str::<Head>(head)?.machine;
    Ok(Some((machine, lines.map(serde_json::from_str).collect::<Result<_, _>>()?)))
}

/// A file that lines are added to.
pub(crate) struct Writer(File);

impl Writer {
    /// Begins a file, or rewrites it with what was read of it.
    pub(crate) fn begin(path: &Path, machine: &Machine, lines: &[Line]) -> Result<Writer> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut text = serde_json::to_string(&Head { machine: machine.clone() })? + "\n";
        for line in lines {
            text += &(serde_json::to_string(line)? + "\n");
        }
        let new = path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, path)?;
        Ok(Writer(OpenOptions::new().append(true).open(path)?))
    }

    pub(crate) fn add(&mut self, line: &Line) -> Result<()> {
        Ok(self.0.write_all((serde_json::to_string(line)? + "\n").as_bytes())?)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn machine() -> Machine {
        let about = About { version: "1.2".to_owned(), best: "all".to_owned(), default: "none".to_owned() };
        let subjects = crate::subjects::SUBJECTS.iter().map(|one| (one.name.to_owned(), about.clone()));
        Machine {
            size: Size::Full,
            rounds: 1,
            commit: "abc1234".to_owned(),
            cpu: "a processor".to_owned(),
            cores: 2,
            memory_gib: 8,
            kernel: "6.1".to_owned(),
            postgres: BTreeMap::from([("server_version".to_owned(), "15".to_owned())]),
            subjects: subjects.collect(),
        }
    }

    pub(crate) fn line(measure: Measure, subject: &str, best: bool, rate: f64) -> Line {
        let latency = measure == Measure::Latency;
        Line {
            round: 0,
            measure,
            subject: subject.to_owned(),
            best,
            queued: 100,
            enqueued: 0,
            jobs: 100,
            ran: 100,
            left: 0,
            seconds: 100.0 / rate,
            rate,
            p50_ms: latency.then_some(2.0),
            p99_ms: latency.then_some(9.0),
            samples: latency.then_some(100),
            wal_bytes: 50_000,
            server_cores: 0.5,
            program_cores: 0.5,
            foreign: 0.125,
            failures: Vec::new(),
            at: 1_700_000_000,
        }
    }

    #[test]
    fn a_line_that_was_cut_off_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines/a.jsonl");
        let lines =
            [line(Measure::Drain, "lineclear", true, 10.0), line(Measure::Bulk, "pg-boss", false, 20.0)];
        let mut writer = Writer::begin(&path, &machine(), &lines[..1]).unwrap();
        writer.add(&lines[1]).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), (machine(), lines.to_vec()));

        let text = fs::read_to_string(&path).unwrap();
        let (_, read) = parse(&text[..text.len() - 2]).unwrap().unwrap();
        assert_eq!(read, lines[..1]);
        assert!(parse("").unwrap().is_none());
    }
}
