//! `lineclear man`: manual pages with the text of `--help`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::failure::Failure;
use crate::output::print;
use crate::output::print_stderr;

const EXAMPLES: &str = "Examples:
  lineclear man | man -l -
  lineclear man --dir /usr/local/share/man/man1          (a page for each command)
  man lineclear-job-list";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Man {
    /// Write a page for each command into this folder
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut command = crate::help_layout::command();
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
                print_stderr(&format!("manual pages written to {}\n", dir.display()));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
