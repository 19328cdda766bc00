//! What `explain` prints: the verdict, and each gate.

use std::process::ExitCode;

use serde_json::Value;

use crate::api_client::{ApiTarget, Json};
use crate::display::OutputStyle;
use crate::failure::Failure;
use crate::output::{print, print_json, sanitize};

pub(crate) fn print_explanation(target: &ApiTarget, explanation: &Json) -> Result<ExitCode, Failure> {
    if target.json {
        print_json(explanation)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text =
        |value: &Value, name: &str| sanitize(value.get(name).and_then(Value::as_str).unwrap_or_default());
    let unicode = OutputStyle::detect().unicode;
    let mut lines = format!("{}\n\n", text(explanation, "verdict"));
    for gate in explanation.get("gates").and_then(Value::as_array).into_iter().flatten() {
        let sign = match (gate.get("open").and_then(Value::as_bool), unicode) {
            (Some(true), true) => "✓",
            (Some(true), false) => "+",
            (Some(false), true) => "✕",
            (Some(false), false) => "!",
            (None, true) => "·",
            (None, false) => ".",
        };
        lines.push_str(&format!("  {sign} {:16}  {}\n", text(gate, "name"), text(gate, "why")));
    }
    print(&lines)?;
    Ok(ExitCode::SUCCESS)
}
