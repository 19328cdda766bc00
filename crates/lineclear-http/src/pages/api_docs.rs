//! `/api/docs`: the OpenAPI document as a page, rendered once. It has no script and loads nothing but its style.

mod document;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Html;
use axum::routing::get;
use maud::{DOCTYPE, Markup, html};
use utoipa::openapi::OpenApi;

use crate::App;
use document::{Field, Operation, Section};

const STYLE: &str = include_str!("../../assets/docs.css");
const POLICY: &str =
    "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The page and its style.
pub(crate) fn routes(document: &OpenApi) -> Router<App> {
    let page = page(document).into_string();
    let policy = [(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))];
    let css: [(HeaderName, &str); 1] = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    Router::new()
        .route("/api/docs", get(move || async move { (policy, Html(page)) }))
        .route("/api/docs.css", get(move || async move { (css, STYLE) }))
}

fn page(document: &OpenApi) -> Markup {
    let (title, version) = (&document.info.title, &document.info.version);
    let sections = document::sections(&serde_json::to_value(document).unwrap_or_default());
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " API" }
                // Relative, so that it works under a base path.
                link rel="stylesheet" href="docs.css";
            }
            body {
                nav aria-label="Operations" {
                    p.brand { a href="#top" { (title) " " small { (version) } } }
                    @for section in &sections {
                        h2 { (section.name) }
                        ul { @for operation in &section.operations { li { a href={ "#" (operation.id) } { (method(operation)) " " (operation.summary) } } } }
                    }
                }
                main #top {
                    h1 { "The " (title) " API" }
                    p {
                        "Ids are strings. Times are RFC 3339 in UTC; fields that end in " code { "_ms" } " are milliseconds. Unknown fields and parameters are refused. "
                        "Lists are paged: pass " code { "next" } " as " code { "cursor" } ". The source of this page: " a href="openapi.json" { "openapi.json" } "."
                    }
                    p {
                        "A server with authentication requires " code { "Authorization: Bearer …" } " (" code { "lineclear token create" } ") with the scope shown beside the operation. "
                        "Errors are " code { "application/problem+json" } ": " code { "code" } " is for programs, " code { "detail" } " for people, " code { "errors" } " has a JSON pointer to each wrong field."
                    }
                    @for section in &sections { (section_of(section)) }
                }
            }
        }
    }
}

fn method(operation: &Operation) -> Markup {
    html! { span class={ "method " (operation.method.to_lowercase()) } { (operation.method) } }
}

fn section_of(section: &Section) -> Markup {
    html! {
        h2.tag { (section.name) }
        @for operation in &section.operations {
            section id=(operation.id) {
                h3 { (method(operation)) " " code { (operation.path) } @if let Some(scope) = &operation.scope { " " span.scope title="required scope" { (scope) } } }
                p { (operation.summary) @if !operation.description.is_empty() { " " (operation.description) } }
                @if !operation.parameters.is_empty() || !operation.body.is_empty() {
                    table {
                        thead { tr { th { "field" } th { "in" } th { "type" } th {} } }
                        tbody { @for field in operation.parameters.iter().chain(&operation.body) { (request_field(field)) } }
                    }
                }
                pre { code { (operation.curl) } }
                @for response in &operation.responses {
                    details {
                        summary { span.status.bad[response.is_problem()] { (response.status) } " " (response.description) }
                        @if !response.fields.is_empty() {
                            table { tbody { @for field in &response.fields { tr { td { code { (field.name) } } td { (field.form) } td { (field.description) } } } } }
                        }
                    }
                }
            }
        }
    }
}

fn request_field(field: &Field) -> Markup {
    html! {
        tr {
            td { code { (field.name) } @if field.required { " " em { "required" } } }
            td { (field.place) } td { (field.form) } td { (field.description) }
        }
    }
}
