//! What each route needs, read from the OpenAPI document: what is written there and what is enforced cannot disagree.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::Method;
use lineclear_model::Scope;
use serde_json::Value;

use crate::pages;

/// What whoever asks must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: whether the server lives, and logging in.
    Nothing,
    /// A name, and this scope.
    Scope(Scope),
}

/// One operation: a method of a path.
#[derive(Debug)]
pub(crate) struct Operation {
    /// Its id in the document.
    pub(crate) action: String,
    pub(crate) need: Need,
}

/// All operations, by path as it is written in routes.
#[derive(Debug, Default)]
pub(crate) struct Needs(HashMap<String, Vec<(Method, Arc<Operation>)>>);

/// Routes that are not of the API, and so not in its document.
pub(crate) const PLAIN: [(&str, Need); 6] = [
    ("/livez", Need::Nothing),
    ("/readyz", Need::Nothing),
    ("/metrics", Need::Scope(Scope::Read)),
    ("/api/openapi.json", Need::Scope(Scope::Read)),
    ("/api/docs", Need::Scope(Scope::Read)),
    ("/api/docs.css", Need::Scope(Scope::Read)),
];

impl Needs {
    /// Of the routes that are served. An operation that does not say what it needs is left out, and so refused.
    pub(crate) fn of(document: &utoipa::openapi::OpenApi) -> Needs {
        let mut needs = Needs::default();
        for (path, need) in PLAIN {
            needs.add(path, Method::GET, path.to_owned(), need);
        }
        for &(method, path, action, need) in pages::ROUTES {
            if let Ok(method) = Method::from_bytes(method.as_bytes()) {
                needs.add(path, method, action.to_owned(), need);
            }
        }
        let document = serde_json::to_value(document).unwrap_or_default();
        let paths = document["paths"].as_object().into_iter().flatten();
        for (path, methods) in paths {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let method = Method::from_bytes(method.to_uppercase().as_bytes());
                let action = operation["operationId"].as_str();
                if let (Ok(method), Some(action), Some(need)) = (method, action, need_of(operation)) {
                    needs.add(path, method, action.to_owned(), need);
                }
            }
        }
        needs
    }

    fn add(&mut self, path: &str, method: Method, action: String, need: Need) {
        self.0.entry(path.to_owned()).or_default().push((method, Arc::new(Operation { action, need })));
    }

    /// The operation of a route. Who may GET may HEAD.
    pub(super) fn find(&self, path: &str, method: &Method) -> Option<&Arc<Operation>> {
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.0.get(path)?.iter().find(|(known, _)| known == method).map(|(_, operation)| operation)
    }

    /// The methods of a path. `None`: no operation of it says what it needs.
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

/// `security: [{}]` needs nothing, `[{"token": ["read"]}]` a scope; anything else says nothing that we understand.
fn need_of(operation: &Value) -> Option<Need> {
    let [entry] = operation["security"].as_array()?.as_slice() else { return None };
    let entry = entry.as_object()?;
    if entry.is_empty() {
        return Some(Need::Nothing);
    }
    match (entry.len(), entry.get("token")?.as_array()?.as_slice()) {
        (1, [word]) => Scope::from_word(word.as_str()?).map(Need::Scope),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_operation_that_does_not_say_what_it_needs_is_not_known() {
        assert_eq!(need_of(&json!({"security": [{}]})), Some(Need::Nothing));
        assert_eq!(need_of(&json!({"security": [{"token": ["admin"]}]})), Some(Need::Scope(Scope::Admin)));
        for unclear in [
            json!({}),
            json!({"security": []}),
            json!({"security": [{"token": []}]}),
            json!({"security": [{"token": ["root"]}]}),
            json!({"security": [{"token": ["read", "admin"]}]}),
            json!({"security": [{"key": ["read"]}]}),
            json!({"security": [{"token": ["read"], "key": []}]}),
            json!({"security": [{}, {"token": ["read"]}]}),
        ] {
            assert_eq!(need_of(&unclear), None, "{unclear}");
        }
    }
}
