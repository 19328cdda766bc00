//! `lineclear config`: the settings of a server.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lineclear_model::secret::without_passwords;
use serde::Serialize;
use serde_json::json;

use crate::api_client::Json;
use crate::config::{Config, Flags, SETTINGS};
use crate::display::{Cell, Column, OutputStyle, print_table};
use crate::failure::Failure;
use crate::output::print_json;

const EXAMPLES: &str = "Examples:
  lineclear config show
  lineclear config show --origin
  LINECLEAR_SLOTS=2 lineclear config show --json";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Print every setting as `serve` and `work` would read it here.
    #[command(after_help = EXAMPLES)]
    Show(Show),
}

#[derive(Args)]
pub(crate) struct Show {
    /// Also print where each value comes from
    #[arg(long)]
    origin: bool,
    /// Read this file instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    name: &'static str,
    value: String,
    origin: String,
    help: &'static str,
}

const NAME: Column = Column { head: "SETTING", of: |line| Cell::text(line.get("name")) };
const VALUE: Column =
    Column { head: "VALUE", of: |line| Cell::text(line.get("value").filter(|value| *value != "")) };
const ORIGINS: [Column; 3] =
    [NAME, VALUE, Column { head: "ORIGIN", of: |line| Cell::text(line.get("origin")) }];
const HELP: [Column; 3] = [NAME, VALUE, Column { head: "HELP", of: |line| Cell::text(line.get("help")) }];

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Command::Show(show) = self;
        let config = Config::read(&Flags::new(), show.config)?;
        let help =
            |name| SETTINGS.iter().find(|setting| setting.name == name).map_or("", |setting| setting.help);
        let lines: Vec<Line> = config
            .values()
            .map(|(name, value)| Line {
                name,
                value: masked(name, &value.text),
                origin: value.origin.to_string(),
                help: help(name),
            })
            .collect();
        if show.json {
            return print_json(&lines);
        }
        let rows: Vec<Json> = lines.iter().map(|line| Json::from(json!(line))).collect();
        print_table(if show.origin { &ORIGINS } else { &HELP }, &rows, &OutputStyle::detect())
    }
}

/// Hides passwords and secrets.
fn masked(name: &str, text: &str) -> String {
    match (name, lineclear::StoreOptions::new(text)) {
        ("db", Ok(options)) => options.to_string(),
        ("db" | "otlp", _) => without_passwords(text).into_owned(),
        ("http_secrets" | "proxy_secret", _) if !text.is_empty() => "•••".to_owned(),
        ("submitter" | "outbox", _) if !text.is_empty() => crate::submitters::masked(text),
        _ => text.to_owned(),
    }
}
