//! `lineclear work`: a node without the HTTP API.

use clap::Args;

use crate::config::Config;
use crate::failure::Failure;
use crate::node_process::{self, NodeArgs};
use crate::runtime::block_on_all_cores;

const EXAMPLES: &str = "Examples:
  lineclear work --db postgres://scheduler@db.internal/app
  lineclear work --slots 32 --shutdown-grace 5m";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Work {
    #[command(flatten)]
    node: NodeArgs,
}

impl Work {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut flags = self.node.flags();
        flags.insert("roles", "dispatcher,workers".to_owned());
        let config = Config::read(&flags, self.node.config)?;
        block_on_all_cores(node_process::run(&config, None, async |_, _| Ok(async || {})))
    }
}
