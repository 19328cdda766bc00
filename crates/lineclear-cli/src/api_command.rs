//! What commands that ask the API have in common.

use std::process::ExitCode;

use clap::Args;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::api::{Api, At, Json, piece, query};
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::show::{Column, Look, Progress, fields, list};

/// Rows of a page.
const PAGE: u32 = 100;

/// How much of a list.
#[derive(Args, Clone)]
pub(crate) struct Much {
    /// Rows at most
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// All rows, however many
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Much {
    pub(crate) const ALL: Much = Much { limit: PAGE, all: true };
}

/// Runs a command that asks, and waits until what it did is written down.
pub(crate) fn asking(
    at: &At,
    command: impl AsyncFnOnce(&Api) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    asking_of(async { at.api().await.map(Some) }, async |api| match api {
        Some(api) => command(api).await,
        None => Err(Failure::failed("there is nobody to ask")),
    })
}

/// The same, of whoever is opened; `None`: there is nobody.
pub(crate) fn asking_of(
    opening: impl Future<Output = Result<Option<Api>, Failure>>,
    command: impl AsyncFnOnce(Option<&Api>) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let api = opening.await?;
        let ended = command(api.as_ref()).await;
        if let Some(api) = api {
            api.finish().await;
        }
        ended
    })
}

/// A command about one thing of a list, by its name. `field`: what holds the names, for which near misses are known.
pub(crate) fn asking_about(
    at: &At,
    (list, field): (&str, Option<&str>),
    name: &str,
    command: impl AsyncFnOnce(&Api, &At, &str) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let path = format!("{list}/{}", piece(name));
    asking(at, async |api| {
        let done = command(api, at, &path).await;
        match field {
            Some(field) => or_nearest(api, done, (list, field), name).await,
            None => done,
        }
    })
}

/// A whole list.
#[derive(Args)]
pub(crate) struct All {
    #[command(flatten)]
    much: Much,
    #[command(flatten)]
    at: At,
}

impl All {
    pub(crate) fn show(self, path: &str, columns: &[Column], none: &str) -> Result<ExitCode, Failure> {
        asking(&self.at, async |api| show_list(api, &self.at, (path, &[]), &self.much, columns, none).await)
    }
}

/// Says which job was made, and how to follow it.
pub(crate) fn say_made(at: &At, made: &Json) -> Result<ExitCode, Failure> {
    let id = made.get("id").and_then(Value::as_str).unwrap_or_default();
    say_or_json(at, made, &format!("job {id}; follow it with: lineclear job watch {id}"))
}

/// Prints one thing: its fields, or its JSON as the API has it.
pub(crate) fn show_one(at: &At, thing: &Json, columns: &[Column]) -> Result<ExitCode, Failure> {
    if at.json {
        print_json(thing)?;
    } else {
        fields(columns, thing, &Look::here())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a list, page by page; the JSON of it as the API has it, with the pages put together.
pub(crate) async fn show_list(
    api: &Api,
    at: &At,
    (path, asked): (&str, &[(&str, Option<String>)]),
    much: &Much,
    columns: &[Column],
    none: &str,
) -> Result<ExitCode, Failure> {
    let (whole, more) = collected(api, (path, asked), much).await?;
    show_rows(at, &whole, more, columns, none)
}

/// The rows of a list in the shape of one page, and whether there are more.
pub(crate) async fn collected(
    api: &Api,
    (path, asked): (&str, &[(&str, Option<String>)]),
    much: &Much,
) -> Result<(Json, bool), Failure> {
    let mut rows: Vec<Json> = Vec::new();
    let mut cursor: Option<String> = None;
    let mut progress = Progress::of_unknown("listed", !much.all);
    let mut pages = 0;
    let last = loop {
        let left = if much.all { PAGE * 10 } else { much.limit.saturating_sub(rows.len() as u32) };
        let mut asked = asked.to_vec();
        asked.push(("limit", Some(left.min(PAGE * 10).to_string())));
        asked.push(("cursor", cursor.take()));
        let page = api.get(&format!("{path}{}", query(&asked))).await?;
        pages += 1;
        rows.extend(only(&page));
        cursor = page.get("next").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() || (!much.all && rows.len() >= much.limit as usize) {
            break page;
        }
        progress.at(rows.len() as u64);
    };
    let whole = if pages == 1 { last } else { last.with("items", &Json::list(rows.iter())) };
    Ok((whole, cursor.is_some()))
}

/// Prints the rows of a list, or its JSON as the API has it.
pub(crate) fn show_rows(
    at: &At,
    whole: &Json,
    more: bool,
    columns: &[Column],
    none: &str,
) -> Result<ExitCode, Failure> {
    if at.json {
        print_json(whole)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (rows, look) = (only(whole), Look::here());
    if rows.is_empty() && look.is_terminal {
        print(&format!("{none}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    list(columns, &rows, &look)?;
    if more && look.is_terminal {
        crate::failure::say("there are more: --all, or a larger --limit\n");
    }
    Ok(ExitCode::SUCCESS)
}

/// When there is no such thing: names the nearest of those that there are, of the first page.
async fn or_nearest(
    api: &Api,
    done: Result<ExitCode, Failure>,
    (list, field): (&str, &str),
    name: &str,
) -> Result<ExitCode, Failure> {
    let failure = match done {
        Err(failure) if failure.code() == 3 => failure,
        done => return done,
    };
    // Only a hint: whoever may not list gets none.
    let page = api.get(&format!("{list}?limit=1000")).await.unwrap_or_default();
    let names = only(&page).into_iter().filter_map(|row| row.get(field)?.as_str().map(str::to_owned));
    Err(match nearest(names, name) {
        Some(there) => failure.nearest(&there),
        None => failure,
    })
}

/// The one that was probably meant.
pub(crate) fn nearest(names: impl Iterator<Item = String>, name: &str) -> Option<String> {
    let near = names.map(|there| (strsim::damerau_levenshtein(name, &there), there)).min();
    near.filter(|(far, _)| *far > 0 && far * 3 <= name.chars().count().max(3)).map(|(_, there)| there)
}

/// The rows of a page that has no others.
pub(crate) fn only(page: &Json) -> Vec<Json> {
    page.entries("items")
}

/// Prints the answer as it is, or a sentence.
pub(crate) fn say_or_json(at: &At, answer: &Json, sentence: &str) -> Result<ExitCode, Failure> {
    if at.json {
        print_json(answer)?;
    } else {
        print(&format!("{sentence}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// JSON from the command line: itself, `@file`, or `-` for standard input. It stays as it was written: a number that is too large for
/// us may not be for whoever gets it.
pub(crate) fn json_of(name: &str, text: &str) -> Result<String, Failure> {
    let bad = |why: String| Failure::usage(format!("{name}: {why}"));
    let text = match text {
        "-" => std::io::read_to_string(std::io::stdin()).map_err(|error| bad(error.to_string()))?,
        file if file.starts_with('@') => {
            let file = file.trim_start_matches('@');
            std::fs::read_to_string(file).map_err(|error| bad(format!("{file}: {error}")))?
        }
        text => text.to_owned(),
    };
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(json) => Ok(json.get().to_owned()),
        Err(error) => Err(bad(format!("it is no JSON: {error}"))),
    }
}

/// A body with one more field, whose JSON stands in it as it is.
pub(crate) fn with_json(body: &Value, name: &str, json: Option<&str>) -> String {
    let body = body.to_string();
    match (json, body.strip_suffix('}')) {
        (Some(json), Some("{")) => format!("{{\"{name}\":{json}}}"),
        (Some(json), Some(others)) => format!("{others},\"{name}\":{json}}}"),
        _ => body,
    }
}

/// An object of those that are there.
pub(crate) fn object(pairs: Vec<(&str, Option<Value>)>) -> Value {
    let said = pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    json!(said.collect::<serde_json::Map<_, _>>())
}

/// Prints what explains something: the verdict, and each gate.
pub(crate) fn explained(at: &At, answer: &Json) -> Result<ExitCode, Failure> {
    if at.json {
        print_json(answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let unicode = Look::here().unicode;
    let mut shown = format!("{}\n\n", crate::output::plain(&text(answer, "verdict")));
    for gate in answer.get("gates").and_then(Value::as_array).into_iter().flatten() {
        let sign = match (gate.get("open").and_then(Value::as_bool), unicode) {
            (Some(true), true) => "✓",
            (Some(true), false) => "+",
            (Some(false), true) => "✕",
            (Some(false), false) => "!",
            (None, true) => "·",
            (None, false) => ".",
        };
        let (name, why) = (text(gate, "name"), text(gate, "why"));
        shown.push_str(&format!(
            "  {sign} {:16}  {}\n",
            crate::output::plain(&name),
            crate::output::plain(&why)
        ));
    }
    print(&shown)?;
    Ok(ExitCode::SUCCESS)
}
