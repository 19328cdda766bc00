//! What commands that call the API have in common.

mod body;
mod explanation;
mod list;

use std::process::ExitCode;

use serde_json::Value;

use crate::api_client::{ApiClient, ApiTarget, Json, path_segment};
use crate::display::{Column, OutputStyle, print_fields};
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::runtime::block_on;

pub(crate) use body::{millis, object, read_json_arg, with_raw_field};
pub(crate) use explanation::print_explanation;
pub(crate) use list::{ListArgs, PageArgs, fetch_pages, items, print_list, print_list_or_empty, print_rows};

/// Opens the API, runs a command with it, and waits until the audit log is written.
pub(crate) fn with_api(
    target: &ApiTarget,
    command: impl AsyncFnOnce(&ApiClient) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    with_optional_api(async { target.open().await.map(Some) }, async |api| match api {
        Some(api) => command(api).await,
        None => Err(Failure::failed("neither a server nor a database is named")),
    })
}

/// Like [`with_api`], where the database may not exist yet.
pub(crate) fn with_optional_api(
    open: impl Future<Output = Result<Option<ApiClient>, Failure>>,
    command: impl AsyncFnOnce(Option<&ApiClient>) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    block_on(async {
        let api = open.await?;
        let result = command(api.as_ref()).await;
        if let Some(api) = api {
            api.finish().await;
        }
        result
    })
}

/// Runs a command on one resource of a collection; it gets the resource's path. If the resource does not exist and `name_field` is given,
/// the failure suggests the nearest name.
pub(crate) fn with_resource(
    target: &ApiTarget,
    (collection, name_field): (&str, Option<&str>),
    name: &str,
    command: impl AsyncFnOnce(&ApiClient, &ApiTarget, &str) -> Result<ExitCode, Failure>,
) -> Result<ExitCode, Failure> {
    let path = format!("{collection}/{}", path_segment(name));
    with_api(target, async |api| {
        let result = command(api, target, &path).await;
        match name_field {
            Some(field) => or_suggest(api, result, (collection, field), name).await,
            None => result,
        }
    })
}

async fn or_suggest(
    api: &ApiClient,
    result: Result<ExitCode, Failure>,
    (collection, field): (&str, &str),
    name: &str,
) -> Result<ExitCode, Failure> {
    let failure = match result {
        Err(failure) if failure.code() == 3 => failure,
        result => return result,
    };
    // A token that may not list gets no suggestion.
    let page = api.get(&format!("{collection}?limit=1000")).await.unwrap_or_default();
    let names = items(&page).into_iter().filter_map(|row| row.get(field)?.as_str().map(str::to_owned));
    Err(match nearest(names, name) {
        Some(nearest) => failure.did_you_mean(&nearest),
        None => failure,
    })
}

/// The name that was probably meant.
pub(crate) fn nearest(names: impl Iterator<Item = String>, name: &str) -> Option<String> {
    let near = names.map(|there| (strsim::damerau_levenshtein(name, &there), there)).min();
    near.filter(|(far, _)| *far > 0 && far * 3 <= name.chars().count().max(3)).map(|(_, there)| there)
}

/// Prints the fields of one resource, or its JSON.
pub(crate) fn print_one(
    target: &ApiTarget,
    resource: &Json,
    columns: &[Column],
) -> Result<ExitCode, Failure> {
    if target.json {
        print_json(resource)?;
    } else {
        print_fields(columns, resource, &OutputStyle::detect())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a sentence, or the JSON of the response.
pub(crate) fn print_answer(target: &ApiTarget, response: &Json, sentence: &str) -> Result<ExitCode, Failure> {
    if target.json {
        print_json(response)?;
    } else {
        print(&format!("{sentence}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints which job was enqueued, and how to follow it.
pub(crate) fn print_enqueued(target: &ApiTarget, job: &Json) -> Result<ExitCode, Failure> {
    let id = job.get("id").and_then(Value::as_str).unwrap_or_default();
    print_answer(target, job, &format!("job {id}; follow it with: lineclear job watch {id}"))
}
