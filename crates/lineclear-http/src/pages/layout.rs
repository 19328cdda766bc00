//! The layout of every page: navigation, top bar, style and script.

use axum::http::{HeaderMap, Uri, header};
use lineclear_model::Scope;
use maud::{DOCTYPE, Markup, html};

use super::assets::{ICON, SCRIPT, STYLE};
use super::{Page, Tab};
use crate::App;
use crate::auth::{Credential, Principal};

/// The cookie with the theme of the browser. Without it, the theme of the system applies.
const THEME: &str = "lineclear-theme";

pub(super) struct Layout<'a> {
    base: &'a str,
    principal: Option<&'a Principal>,
    theme: Option<&'static str>,
    /// The path and query of the page.
    address: String,
    /// The current search.
    q: String,
}

/// The navigation: entry, path, label, key after `g`, and required scope.
const TABS: [(Tab, &str, &str, &str, Scope); 6] = [
    (Tab::Overview, "/", "Overview", "o", Scope::Read),
    (Tab::Jobs, "/jobs", "Jobs", "j", Scope::Read),
    (Tab::DeadLetters, "/dead-letters", "Dead letters", "d", Scope::Read),
    (Tab::Outbox, "/outbox", "Outbox", "x", Scope::Read),
    (Tab::Cluster, "/cluster", "Cluster", "c", Scope::Read),
    (Tab::Enqueue, "/enqueue", "Enqueue", "e", Scope::Operate),
];

impl<'a> Layout<'a> {
    pub(super) fn of(
        app: &'a App,
        principal: Option<&'a Principal>,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> Layout<'a> {
        let query = uri.query().unwrap_or_default();
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let q =
            pairs.find(|(name, _)| *name == "q").map(|(_, value)| super::components::unescape_query(value));
        Layout {
            base: &app.base,
            principal,
            theme: theme(headers),
            address: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            q: q.unwrap_or_default(),
        }
    }

    pub(super) fn wrap(&self, page: Page) -> Markup {
        let asset = |name: &str| format!("{}/assets/{name}", self.base);
        html! {
            (DOCTYPE)
            html lang="en" data-theme=[self.theme] data-base=(self.base) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (page.title) " · Lineclear" }
                    link rel="icon" type="image/svg+xml" href=(asset(&ICON.name));
                    link rel="stylesheet" href=(asset(&STYLE.name));
                    script type="module" src=(asset(&SCRIPT.name)) {}
                }
                body data-page=(self.address) data-live[page.live] {
                    a.skip href="#main" { "Skip to content" }
                    (self.top(page.live))
                    (self.rail(page.tab))
                    main #main tabindex="-1" {
                        div #trouble.trouble role="status" hidden {}
                        @for region in page.regions {
                            div.region id=(region.id) data-region { (region.html) }
                        }
                    }
                }
            }
        }
    }

    fn top(&self, live: bool) -> Markup {
        html! {
            header.top {
                a.brand href={ (self.base) "/" } { img src={ (self.base) "/assets/" (ICON.name) } alt="" width="20" height="20"; "Lineclear" }
                @if self.principal.is_some() {
                    form.search method="get" action={ (self.base) "/jobs" } role="search" {
                        label.hidden for="q" { "Search jobs" }
                        input #q type="search" name="q" value=(self.q) placeholder="state:dead kind:mail.* since:24h" autocomplete="off"
                            spellcheck="false" maxlength="1024";
                    }
                }
                div.tools {
                    @if live { span #live.live.script title="Whether this page updates by itself" { span.dot {} span.word { "not live" } } }
                    button #theme.tool.script type="button" title="Light or dark theme (T)" aria-label="Light or dark theme" { "◐" }
                    button #help.tool.script type="button" title="Keyboard shortcuts (?)" aria-label="Keyboard shortcuts" { "?" }
                    @if let Some(principal) = self.principal {
                        @if principal.credential == Credential::Session {
                            form method="post" action={ (self.base) "/logout" } {
                                span.muted.who { (principal.name) }
                                button.tool type="submit" { "Log out" }
                            }
                        }
                        @if !principal.scopes.include(Scope::Operate) { span.badge.cancelled title="Your scopes do not allow changes" { "read only" } }
                    }
                }
            }
        }
    }

    fn rail(&self, here: Tab) -> Markup {
        html! {
            nav.rail aria-label="Pages" {
                @if let Some(principal) = self.principal {
                    @for (tab, path, name, key, _) in TABS.into_iter().filter(|tab| principal.scopes.include(tab.4)) {
                        a href={ (self.base) (path) } aria-current=[(tab == here).then_some("page")] data-key=(key) { (name) }
                    }
                    span.fill {}
                    a href={ (self.base) "/api/docs" } { "API" }
                }
            }
        }
    }
}

fn theme(headers: &HeaderMap) -> Option<&'static str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    match pairs.find(|(name, _)| *name == THEME)?.1 {
        "dark" => Some("dark"),
        "light" => Some("light"),
        _ => None,
    }
}
