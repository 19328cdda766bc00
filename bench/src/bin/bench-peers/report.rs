//! The report: what the lines say, as Markdown.

use std::fs;

use anyhow::{Context, Result, ensure};
use lineclear::model::Micros;
use lineclear_measure::{median, quantile};

use crate::ReportArgs;
use crate::lines::{self, Line, Machine};
use crate::plan::{Measure, Size, steps};
use crate::subjects::{OURS, SUBJECTS, Subject, chosen};
use crate::table::{Table, number};

/// The report stands between these in the document.
const BEGIN: &str = "<!-- bench-peers: begin -->";
const END: &str = "<!-- bench-peers: end -->";
/// The name of the plot, beside the document.
const PLOT: &str = "images/benchmarks.svg";
/// Above this share of foreign load a measurement is named.
const NOISY: f64 = 0.1;

pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    let (machine, lines) =
        lines::read(&args.lines)?.with_context(|| format!("{} has no measurements", args.lines.display()))?;
    let Some(document) = &args.write else {
        print!("{}", text(&machine, &lines));
        return Ok(());
    };
    ensure!(machine.size == Size::Full, "figures of a quick run do not belong into a document");
    ensure!(machine.subjects.len() == SUBJECTS.len(), "not all subjects were measured");
    let all = steps(&chosen(&[])?, machine.rounds);
    let missing = all.iter().filter(|step| !lines.iter().any(|line| line.is_of(step))).count();
    ensure!(
        missing == 0,
        "{missing} of {} measurements are missing: run it again, and it goes on",
        all.len()
    );
    let before = fs::read_to_string(document).with_context(|| document.display().to_string())?;
    let (head, rest) = before.split_once(BEGIN).context("the document has no place for the report")?;
    let (_, tail) = rest.split_once(END).context("the place for the report does not end")?;
    let plot = document.parent().context("the document is in no folder")?.join(PLOT);
    fs::create_dir_all(plot.parent().context("the plot is in no folder")?)?;
    fs::write(&plot, crate::plot::svg(&lines))?;
    let image = format!("![Drain and end to end, jobs per second]({PLOT})");
    let report = text(&machine, &lines);
    fs::write(document, format!("{head}{BEGIN}\n\n{image}\n\n{report}\n{END}{tail}"))?;
    Ok(())
}

/// The whole report.
pub(crate) fn text(machine: &Machine, lines: &[Line]) -> String {
    let mut parts = vec![where_and_when(machine, lines)];
    for best in [true, false] {
        let name = if best { "Best settings" } else { "Default settings" };
        parts.push(format!("### {name}\n\n{}", throughput(lines, best)));
    }
    parts.push(format!("### Enqueueing\n\n{}", enqueueing(lines)));
    parts.push(format!("### Latency\n\n{}", latency(lines)));
    parts.push(format!("### Write-ahead log\n\n{}", wal(lines)));
    parts.push(format!("### What each keeps and promises\n\n{}", promises(machine)));
    parts.push(format!("### Settings and versions\n\n{}", settings(machine)));
    parts.push(format!("### Noise\n\n{}", noise(lines)));
    parts.join("\n")
}

/// The values of one side, by round.
pub(crate) fn values(
    lines: &[Line],
    subject: &Subject,
    measure: Measure,
    best: bool,
    of: impl Fn(&Line) -> Option<f64>,
) -> Vec<f64> {
    let side = |line: &&Line| line.subject == subject.name && line.measure == measure && line.best == best;
    lines.iter().filter(side).filter_map(of).collect()
}

/// A median, with the least and the most.
fn spread(values: &[f64]) -> String {
    match values {
        [] => "–".to_owned(),
        [one] => number(*one),
        _ => {
            let [least, most] = [0.0, 1.0].map(|share| number(quantile(values, share)));
            format!("{} ({least} to {most})", number(median(values)))
        }
    }
}

/// How many times ours.
fn ratio(ours: &[f64], theirs: &[f64]) -> String {
    if ours.is_empty() || theirs.is_empty() {
        return "–".to_owned();
    }
    format!("{}×", number(median(theirs) / median(ours)))
}

/// A table with a row per subject, and for each measure a column of values and one of ratios to ours.
fn compared(
    lines: &[Line],
    columns: &[(&str, Measure, bool)],
    of: impl Fn(&Line) -> Option<f64> + Copy,
) -> String {
    let ours = Subject::named(OURS);
    let mut head = vec!["queue"];
    for (name, _, _) in columns {
        head.extend([*name, "ratio"]);
    }
    let mut table = Table::new(&head);
    for subject in &SUBJECTS {
        let mut cells = vec![subject.name.to_owned()];
        let mut any = false;
        for &(_, measure, best) in columns {
            let of_ours = ours.map_or(Vec::new(), |ours| values(lines, ours, measure, best, of));
            let of_theirs = values(lines, subject, measure, best, of);
            any |= !of_theirs.is_empty();
            cells.extend([spread(&of_theirs), ratio(&of_ours, &of_theirs)]);
        }
        if any {
            table.row(cells);
        }
    }
    table.text()
}

fn throughput(lines: &[Line], best: bool) -> String {
    let columns = [("drain, jobs/s", Measure::Drain, best), ("end to end, jobs/s", Measure::EndToEnd, best)];
    compared(lines, &columns, |line| Some(line.rate))
}

fn enqueueing(lines: &[Line]) -> String {
    let columns = [
        ("1 caller, jobs/s", Measure::Single1, true),
        ("16 callers, jobs/s", Measure::Single16, true),
        ("bulk, 1 caller", Measure::Bulk, false),
        ("bulk, best", Measure::Bulk, true),
    ];
    compared(lines, &columns, |line| Some(line.rate))
}

fn latency(lines: &[Line]) -> String {
    let mut table =
        Table::new(&["queue", "best: p50 ms", "ratio", "p99 ms", "default: p50 ms", "p99 ms", "jobs"]);
    let of = |subject, best, field: fn(&Line) -> Option<f64>| {
        values(lines, subject, Measure::Latency, best, field)
    };
    for subject in &SUBJECTS {
        let p50 = of(subject, true, |line| line.p50_ms);
        let ours = Subject::named(OURS).map_or(Vec::new(), |ours| of(ours, true, |line| line.p50_ms));
        if p50.is_empty() {
            continue;
        }
        let samples = of(subject, false, |line| line.samples.map(|samples| samples as f64));
        table.row(vec![
            subject.name.to_owned(),
            spread(&p50),
            ratio(&ours, &p50),
            spread(&of(subject, true, |line| line.p99_ms)),
            spread(&of(subject, false, |line| line.p50_ms)),
            spread(&of(subject, false, |line| line.p99_ms)),
            if samples.is_empty() { "–".to_owned() } else { format!("{:.0}", samples.iter().sum::<f64>()) },
        ]);
    }
    let note = "\nThe last column counts the jobs with default settings. A queue that looks for jobs seldom has few of them, and the next \
                job always comes just after it has looked: its median is nearly its whole interval.\n";
    table.text() + note
}

fn wal(lines: &[Line]) -> String {
    let columns = [
        ("bulk enqueue, bytes per job", Measure::Bulk, true),
        ("drain, bytes per job", Measure::Drain, true),
    ];
    let of_all = |line: &Line| {
        let jobs = if line.measure == Measure::Bulk { line.enqueued } else { line.queued - line.left };
        Some(line.wal_bytes as f64 / jobs.max(1) as f64)
    };
    compared(lines, &columns, of_all)
}

fn promises(machine: &Machine) -> String {
    let mut table = "| queue | completed jobs | a late result of a worker that lost its job changes | retries, and after a crash |\n\
                     | --- | --- | --- | --- |\n"
        .to_owned();
    for subject in SUBJECTS.iter().filter(|subject| machine.subjects.contains_key(subject.name)) {
        let Subject { name, keeps, fence, retries, .. } = subject;
        table += &format!("| {name} | {keeps} | {fence} | {retries} |\n");
    }
    table
}

fn settings(machine: &Machine) -> String {
    let mut table =
        "| queue | version | best settings | default settings |\n| --- | --- | --- | --- |\n".to_owned();
    for subject in &SUBJECTS {
        if let Some(about) = machine.subjects.get(subject.name) {
            let default = if subject.has(peer_harness::Settings::Default) { &about.default } else { "–" };
            let Subject { name, language, .. } = subject;
            table += &format!("| {name} ({language}) | {} | {} | {default} |\n", about.version, about.best);
        }
    }
    table
}

fn where_and_when(machine: &Machine, lines: &[Line]) -> String {
    let Machine { commit, cpu, cores, memory_gib, kernel, rounds, .. } = machine;
    let postgres: Vec<String> = machine
        .postgres
        .iter()
        .filter(|(name, _)| *name != "server_version")
        .map(|(name, value)| format!("`{name}={value}`"))
        .collect();
    let version = machine.postgres.get("server_version").map_or("", String::as_str);
    let size = match machine.size {
        Size::Full => "",
        Size::Quick => "**A quick run: the figures mean little.** ",
    };
    let [first, last] = [lines.iter().map(|line| line.at).min(), lines.iter().map(|line| line.at).max()]
        .map(|at| at.map_or("–".to_owned(), day));
    let span = if first == last { first } else { format!("{first} and {last}") };
    format!(
        "{size}{} measurements of commit {commit} in {rounds} rounds on {span} (UTC), on {cores} cores ({cpu}) with {memory_gib} GiB, Linux {kernel}. \
         The server and what is measured share them. PostgreSQL {version}: {}.\n",
        lines.len(),
        postgres.join(", ")
    )
}

/// The day of a moment, as 2026-01-31.
fn day(at: u64) -> String {
    let moment = i64::try_from(at).ok().and_then(|at| Micros::new(at.saturating_mul(1_000_000)));
    let text = moment.map_or_else(String::new, |moment| moment.to_string());
    text.split('T').next().unwrap_or_default().to_owned()
}

fn noise(lines: &[Line]) -> String {
    let foreign: Vec<f64> = lines.iter().map(|line| line.foreign * 100.0).collect();
    let noisy: Vec<&Line> = lines.iter().filter(|line| line.foreign > NOISY).collect();
    let mut text = format!(
        "Other programs used {} % of all cores in the median, and {} % at most.\n",
        number(median(&foreign)),
        number(quantile(&foreign, 1.0))
    );
    if !noisy.is_empty() {
        let share = noisy.len() as f64 / lines.len() as f64 * 100.0;
        text += &format!(
            "{} measurements ({} %) had more than {} %: compare nothing that is closer than the spread.\n",
            noisy.len(),
            number(share),
            NOISY * 100.0
        );
    }
    for line in lines {
        for failure in &line.failures {
            text += &format!(
                "{} of {} failed once: {}.\n",
                line.measure,
                line.subject,
                failure.lines().next().unwrap_or_default()
            );
        }
    }
    for line in lines.iter().filter(|line| line.left == 0 && line.ran > line.queued + line.enqueued) {
        text += &format!(
            "{} ran {} handlers for {} jobs ({}).\n",
            line.subject,
            line.ran,
            line.queued + line.enqueued,
            line.measure
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::tests::{line, machine};

    fn lines() -> Vec<Line> {
        let mut lines = Vec::new();
        for step in steps(&chosen(&[]).unwrap(), 1) {
            let rate = if step.subject.name == OURS { 1_000.0 } else { 500.0 };
            let best = step.settings == peer_harness::Settings::Best;
            lines.push(line(step.measure, step.subject.name, best, rate));
        }
        lines
    }

    #[test]
    fn medians_spreads_and_ratios_are_in_the_report() {
        let mut lines = lines();
        for rate in [400.0, 700.0] {
            lines.push(line(Measure::Drain, "pg-boss", true, rate));
        }
        let text = text(&machine(), &lines);
        assert!(text.contains("| pg-boss | 500 (400 to 700) | 0.500× | 500 | 0.500× |"), "{text}");
        assert!(text.contains("on 2023-11-14 (UTC), on 2 cores"), "{text}");
        assert!(text.contains("used 12.5 % of all cores"), "{text}");
    }

    #[test]
    fn only_a_whole_run_is_written_into_the_document() {
        let folder = tempfile::tempdir().unwrap();
        let (path, document) = (folder.path().join("a.jsonl"), folder.path().join("a.md"));
        let write = |machine: &Machine, lines: &[Line]| {
            lines::Writer::begin(&path, machine, lines).unwrap();
            run(&ReportArgs { lines: path.clone(), write: Some(document.clone()) })
        };
        fs::write(&document, format!("# Title\n{BEGIN}\nno figures\n{END}\nafter\n")).unwrap();
        let why = write(&machine(), &lines()[1..]).unwrap_err().to_string();
        assert!(why.contains("1 of"), "{why}");
        let why = write(&Machine { size: Size::Quick, ..machine() }, &lines()).unwrap_err().to_string();
        assert!(why.contains("quick"), "{why}");

        write(&machine(), &lines()).unwrap();
        let text = fs::read_to_string(&document).unwrap();
        assert!(text.starts_with("# Title\n") && text.ends_with("\nafter\n") && !text.contains("no figures"));
        assert!(fs::read_to_string(folder.path().join(PLOT)).unwrap().starts_with("<svg"));
        write(&machine(), &lines()).unwrap();
        assert_eq!(fs::read_to_string(&document).unwrap(), text, "writing it again changes nothing");
    }
}
