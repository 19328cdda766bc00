//! Built-in kinds, which need no Rust.

mod allowed;
mod command;
mod command_settings;
mod guards;
mod output;
mod sample;
mod secret_rules;

use std::collections::BTreeMap;

use lineclear::node::Builder;
use lineclear::outbound::{Breakers, Outbound, Reach, Secret, http};
use lineclear::secrets::SecretSources;

use crate::config::{Config, networks, parse_duration};
use crate::failure::Failure;
use crate::output::print_stderr;

pub(crate) use allowed::Allowed;
pub(crate) use command::check_argv;
pub(crate) use command_settings::{limits, names};
pub(crate) use output::TARGET;
pub(crate) use secret_rules::{PREFIX as SECRET_PREFIX, SecretRules};

/// Whether the settings allow any command.
pub(crate) fn allow_commands(config: &Config) -> bool {
    Allowed::parse(config.text("commands")).is_ok_and(|allowed| !allowed.is_empty())
}

/// What jobs of the kind `http` may reach.
fn reach(config: &Config) -> Result<Reach, Failure> {
    let bad = |name: &'static str| move |why: String| config.bad(name, &why);
    Ok(Reach {
        plain: config.text("http_plain") == "true",
        ports: ports(config.text("http_ports")).map_err(bad("http_ports"))?,
        networks: networks(config.text("http_networks")).map_err(bad("http_networks"))?,
    })
}

/// Adds the input checks of these kinds, without their handlers.
pub(crate) fn add_checks(builder: Builder, config: &Config) -> Result<Builder, Failure> {
    async fn never() {}
    let reach = reach(config)?;
    // Which commands are allowed is checked by the server that runs them: servers may differ.
    Ok(builder.kind_checked(http::KIND, move |input| http::check(&reach, input), never).kind_checked(
        command::KIND,
        command::check,
        never,
    ))
}

/// Adds the kinds that the settings allow.
pub(crate) fn add(builder: Builder, config: &Config, breakers: &Breakers) -> Result<Builder, Failure> {
    let bad = |name: &'static str| move |why: String| config.bad(name, &why);
    let reach = reach(config)?;
    let secrets = secrets(config.text("http_secrets")).map_err(bad("http_secrets"))?;
    let rules = SecretRules::parse(config.text("secrets")).map_err(bad("secrets"))?;
    let outbound = Outbound::new(reach.clone(), secrets)
        .map_err(|error| Failure::failed(error.to_string()))?
        .secret_hosts(rules.hosts())
        .breakers(breakers.clone());
    let builder = builder.secrets(rules.resolver(sources(config)));
    let builder =
        builder.state(outbound).kind_checked(http::KIND, move |input| http::check(&reach, input), http::run);
    let builder = builder.kind(sample::KIND, sample::run);
    let allowed = Allowed::parse(config.text("commands")).map_err(bad("commands"))?;
    if allowed.is_empty() {
        return Ok(builder);
    }
    let lease = parse_duration(config.text("lease")).map_err(bad("lease"))?;
    for program in allowed.missing() {
        print_stderr(&format!("commands: program {program} does not exist\n"));
    }
    let confinement = command_settings::confinement(config)?;
    let variables = command_settings::variables(config, confinement.user.as_ref())?;
    keep_private();
    let commands = command::Commands::new(allowed, confinement, variables, lease);
    Ok(builder.state(commands).kind_checked(command::KIND, command::check, command::run))
}

/// Keeps commands of the same user from reading the environment and the memory of this process, which hold passwords.
fn keep_private() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::warn!(%error, "commands can read the environment of this process");
    }
}

/// Where secrets that inputs name come from.
pub(crate) fn sources(config: &Config) -> SecretSources {
    let sources = SecretSources::new().environment(SECRET_PREFIX);
    match config.text("secrets_dir") {
        "" => sources,
        folder => sources.folder(folder),
    }
}

/// Checks the settings of the kinds.
pub(crate) fn check(config: &Config) -> Result<(), Failure> {
    let bad = |name: &'static str| move |why: String| config.bad(name, &why);
    reach(config)?;
    secrets(config.text("http_secrets")).map_err(bad("http_secrets"))?;
    Allowed::parse(config.text("commands")).map(drop).map_err(bad("commands"))
}

/// `8080,8443`
pub(crate) fn ports(text: &str) -> Result<Vec<u16>, String> {
    let port = |word: &str| word.parse().map_err(|_| format!("{word:?} is not a port"));
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(port).collect()
}

/// `hooks.example.com=whsec_…,hooks.example.com=whsec_…`: one for each host, or two during rotation.
pub(crate) fn secrets(text: &str) -> Result<BTreeMap<String, Vec<Secret>>, String> {
    let mut secrets: BTreeMap<String, Vec<Secret>> = BTreeMap::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (host, secret) = word.split_once('=').ok_or("expected hooks.example.com=whsec_…")?;
        let secret = secret.parse().map_err(|bad: lineclear::outbound::BadSecret| bad.to_string())?;
        secrets.entry(host.trim().to_lowercase()).or_default().push(secret);
    }
    Ok(secrets)
}
