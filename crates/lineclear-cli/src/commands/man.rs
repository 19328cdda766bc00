//! `lineclear man`: manual pages, made of the same text as `--help`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::failure::{Failure, say};
use crate::output::print;

const EXAMPLES: &str = "Examples:
  lineclear man | man -l -
  lineclear man --dir /usr/local/share/man/man1          (a page for each command)
  man lineclear-job-list";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Writes a page for each command into this folder
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut command = crate::help::command();
        match self.dir {
            None => {
                command.build();
                let mut page = Vec::new();
                let made = clap_mangen::Man::new(command).render(&mut page);
                made.map_err(|error| Failure::failed(error.to_string()))?;
                print(&String::from_utf8_lossy(&page))?;
            }
            Some(dir) => {
                let cannot = |error: std::io::Error| {
                    Failure::failed(format!("cannot write to {}: {error}", dir.display()))
                };
                std::fs::create_dir_all(&dir).map_err(cannot)?;
                clap_mangen::generate_to(command, &dir).map_err(cannot)?;
                say(&format!("written to {}\n", dir.display()));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
