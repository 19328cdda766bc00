//! The scope that each route requires, read from the OpenAPI document: documentation and enforcement cannot disagree.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::Method;
use lineclear_model::Scope;
use serde_json::Value;

use crate::pages;

/// What a caller must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// Nothing: probes, and logging in.
    Public,
    /// Authentication, and this scope.
    Scope(Scope),
    /// The token of the claim that the path names, which the handler checks.
    ClaimToken,
}

/// One operation: a method of a path.
#[derive(Debug)]
pub(crate) struct Operation {
    /// Its id in the document.
    pub(crate) action: String,
    pub(crate) requirement: Requirement,
}

/// All operations, by path as routes spell it.
#[derive(Debug, Default)]
pub(crate) struct RequiredScopes(HashMap<String, Vec<(Method, Arc<Operation>)>>);

/// Routes that are not in the API document.
pub(crate) const UNDOCUMENTED: [(&str, Requirement); 6] = [
    ("/livez", Requirement::Public),
    ("/readyz", Requirement::Public),
    ("/metrics", Requirement::Scope(Scope::Read)),
    ("/api/openapi.json", Requirement::Scope(Scope::Read)),
    ("/api/docs", Requirement::Scope(Scope::Read)),
    ("/api/docs.css", Requirement::Scope(Scope::Read)),
];

impl RequiredScopes {
    /// The scopes of all routes. An operation that does not declare its scope is left out, and so refused.
    pub(crate) fn of(document: &utoipa::openapi::OpenApi) -> RequiredScopes {
        let mut scopes = RequiredScopes::default();
        for (path, requirement) in UNDOCUMENTED {
            scopes.add(path, Method::GET, path.to_owned(), requirement);
        }
        for &(method, path, action, requirement) in pages::ROUTES {
            if let Ok(method) = Method::from_bytes(method.as_bytes()) {
                scopes.add(path, method, action.to_owned(), requirement);
            }
        }
        let document = serde_json::to_value(document).unwrap_or_default();
        let paths = document["paths"].as_object().into_iter().flatten();
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let method = Method::from_bytes(method.to_uppercase().as_bytes());
                let action = operation["operationId"].as_str();
                if let (Ok(method), Some(action), Some(requirement)) =
                    (method, action, requirement_of(operation))
                {
                    scopes.add(path, method, action.to_owned(), requirement);
                }
            }
        }
        scopes
    }

    fn add(&mut self, path: &str, method: Method, action: String, requirement: Requirement) {
        self.0
            .entry(path.to_owned())
            .or_default()
            .push((method, Arc::new(Operation { action, requirement })));
    }

    /// The operation of a route. HEAD requires what GET requires.
    pub(super) fn find(&self, path: &str, method: &Method) -> Option<&Arc<Operation>> {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.0.get(path)?.iter().find(|(known, _)| known == method).map(|(_, operation)| operation)
    }

    /// The declared methods of a path. `None`: it has none.
    pub(super) fn methods(&self, path: &str) -> Option<String> {
        let methods: Vec<&str> = self.0.get(path)?.iter().map(|(method, _)| method.as_str()).collect();
        Some(methods.join(", "))
    }

    /// Each method and path, with its operation.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Method, &str, &Operation)> {
        self.0.iter().flat_map(|(path, methods)| {
            methods.iter().map(move |(method, operation)| (method, path.as_str(), &**operation))
        })
    }
}

/// `security: [{}]` is public, `[{"token": ["read"]}]` requires a scope, `[{"claim": []}]` the token of a claim; anything else is not
/// understood.
fn requirement_of(operation: &Value) -> Option<Requirement> {
    let [entry] = operation["security"].as_array()?.as_slice() else { return None };
    let entry = entry.as_object()?;
    if entry.is_empty() {
        return Some(Requirement::Public);
    }
    if entry.len() == 1 && entry.get("claim").is_some_and(|scopes| *scopes == Value::Array(Vec::new())) {
        return Some(Requirement::ClaimToken);
    }
    match (entry.len(), entry.get("token")?.as_array()?.as_slice()) {
        (1, [word]) => Scope::from_word(word.as_str()?).map(Requirement::Scope),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_operation_without_a_scope_is_unknown() {
        assert_eq!(requirement_of(&json!({"security": [{}]})), Some(Requirement::Public));
        assert_eq!(
            requirement_of(&json!({"security": [{"token": ["admin"]}]})),
            Some(Requirement::Scope(Scope::Admin))
        );
        assert_eq!(requirement_of(&json!({"security": [{"claim": []}]})), Some(Requirement::ClaimToken));
        for unclear in [
            json!({}),
            json!({"security": []}),
            json!({"security": [{"token": []}]}),
            json!({"security": [{"token": ["root"]}]}),
            json!({"security": [{"token": ["read", "admin"]}]}),
            json!({"security": [{"key": ["read"]}]}),
            json!({"security": [{"claim": ["read"]}]}),
            json!({"security": [{"claim": [], "token": ["read"]}]}),
            json!({"security": [{"token": ["read"], "key": []}]}),
            json!({"security": [{}, {"token": ["read"]}]}),
        ] {
            assert_eq!(requirement_of(&unclear), None, "{unclear}");
        }
    }
}
