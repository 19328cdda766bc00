//! Lists: `--limit` and `--all`, page by page.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::{with_api, with_optional_api};
use crate::api_client::{ApiClient, ApiTarget, Json, query_string};
use crate::display::{Column, OutputStyle, Progress, print_table};
use crate::failure::Failure;
use crate::output::{print, print_json, print_stderr};

/// Default number of rows.
const LIMIT: u32 = 100;
/// Largest page.
const PAGE_MAX: u32 = 1_000;

/// How many rows of a list.
#[derive(Args, Clone)]
pub(crate) struct PageArgs {
    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = LIMIT, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// All rows
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl PageArgs {
    pub(crate) const ALL: PageArgs = PageArgs { limit: LIMIT, all: true };
}

/// Arguments of a list without filters.
#[derive(Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    target: ApiTarget,
}

impl ListArgs {
    pub(crate) fn run(self, path: &str, columns: &[Column], empty: &str) -> Result<ExitCode, Failure> {
        with_api(&self.target, async |api| {
            print_list(api, &self.target, (path, &[]), &self.page, columns, empty).await
        })
    }
}

/// Prints a list; its JSON has the shape of one page with all rows.
pub(crate) async fn print_list(
    api: &ApiClient,
    target: &ApiTarget,
    (path, query): (&str, &[(&str, Option<String>)]),
    page: &PageArgs,
    columns: &[Column],
    empty: &str,
) -> Result<ExitCode, Failure> {
    let (list, has_more) = fetch_pages(api, (path, query), page).await?;
    print_rows(target, &list, has_more, columns, empty)
}

/// Prints a list of a server, or of the database that `serve` would use here. If that does not exist yet, the list is empty.
pub(crate) fn print_list_or_empty(
    target: &ApiTarget,
    path: &str,
    page: &PageArgs,
    columns: &[Column],
    empty: &str,
) -> Result<ExitCode, Failure> {
    with_optional_api(target.open_server_or_database(false), async |api| match api {
        Some(api) => print_list(api, target, (path, &[]), page, columns, empty).await,
        None => print_rows(target, &json!({"items": [], "next": null}).into(), false, columns, empty),
    })
}

/// Fetches pages and joins them; also returns whether there are more rows.
pub(crate) async fn fetch_pages(
    api: &ApiClient,
    (path, query): (&str, &[(&str, Option<String>)]),
    args: &PageArgs,
) -> Result<(Json, bool), Failure> {
    let mut rows: Vec<Json> = Vec::new();
    let mut cursor: Option<String> = None;
    let mut progress = Progress::without_total("listed", !args.all);
    let mut pages = 0;
    let last = loop {
        let left = if args.all { PAGE_MAX } else { args.limit.saturating_sub(rows.len() as u32) };
        let mut query = query.to_vec();
        query.push(("limit", Some(left.min(PAGE_MAX).to_string())));
        query.push(("cursor", cursor.take()));
        let page = api.get(&format!("{path}{}", query_string(&query))).await?;
        pages += 1;
        rows.extend(items(&page));
        cursor = page.get("next").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() || (!args.all && rows.len() >= args.limit as usize) {
            break page;
        }
        progress.set(rows.len() as u64);
    };
    let list = if pages == 1 { last } else { last.with("items", &Json::list(rows.iter())) };
    Ok((list, cursor.is_some()))
}

/// Prints the rows of a list, or its JSON.
pub(crate) fn print_rows(
    target: &ApiTarget,
    list: &Json,
    has_more: bool,
    columns: &[Column],
    empty: &str,
) -> Result<ExitCode, Failure> {
    if target.json {
        print_json(list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (rows, style) = (items(list), OutputStyle::detect());
    if rows.is_empty() && style.is_terminal {
        print(&format!("{empty}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    print_table(columns, &rows, &style)?;
    if has_more && style.is_terminal {
        print_stderr("there are more rows; see --limit and --all\n");
    }
    Ok(ExitCode::SUCCESS)
}

/// The rows of a page.
pub(crate) fn items(page: &Json) -> Vec<Json> {
    page.entries("items")
}
