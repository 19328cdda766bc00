//! `lineclear completions`: completion scripts for shells.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::print;

const EXAMPLES: &str = "Examples:
  lineclear completions bash > /etc/bash_completion.d/lineclear
  lineclear completions bash > ~/.local/share/bash-completion/completions/lineclear
  lineclear completions zsh > ~/.zfunc/_lineclear          (with ~/.zfunc in $fpath)
  lineclear completions fish > ~/.config/fish/completions/lineclear.fish
  source <(lineclear completions bash)                     (for this shell only)";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::help_layout::command(), "lineclear", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
