//! The parts of the OpenAPI document that the page shows.

use serde_json::Value;

/// The operations of one tag.
pub(super) struct Section {
    pub(super) name: String,
    pub(super) operations: Vec<Operation>,
}

/// One operation.
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) summary: String,
    pub(super) description: String,
    pub(super) scope: Option<String>,
    pub(super) parameters: Vec<Field>,
    pub(super) body: Vec<Field>,
    pub(super) responses: Vec<Response>,
    pub(super) curl: String,
}

/// A parameter, or a field of a body.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) place: String,
    pub(super) form: String,
    pub(super) required: bool,
    pub(super) description: String,
}

/// A response.
pub(super) struct Response {
    pub(super) status: String,
    pub(super) description: String,
    pub(super) fields: Vec<Field>,
}

/// Operations by tag, in the order of the tags.
pub(super) fn sections(document: &Value) -> Vec<Section> {
    let tags = document["tags"].as_array().into_iter().flatten().map(|tag| text(&tag["name"]));
    let mut sections: Vec<Section> = tags.map(|name| Section { name, operations: Vec::new() }).collect();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let of = text(&operation["tags"][0]);
            let operation = Operation::read(document, method, path, operation);
            match sections.iter_mut().find(|section| section.name == of) {
                Some(section) => section.operations.push(operation),
                None => sections.push(Section { name: of, operations: vec![operation] }),
            }
        }
    }
    sections.retain(|section| !section.operations.is_empty());
    sections
}

impl Operation {
    fn read(document: &Value, method: &str, path: &str, operation: &Value) -> Operation {
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let parameters = parameters.map(|parameter| Field {
            name: text(&parameter["name"]),
            place: text(&parameter["in"]),
            form: form(document, &parameter["schema"]),
            required: parameter["required"] == true,
            description: text(&parameter["description"]),
        });
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let body = fields(document, body);
        let responses = operation["responses"].as_object().into_iter().flatten();
        Operation {
            id: text(&operation["operationId"]),
            method: method.to_uppercase(),
            path: path.to_owned(),
            summary: text(&operation["summary"]),
            description: text(&operation["description"]),
            scope: operation["security"][0]["token"][0].as_str().map(ToOwned::to_owned),
            parameters: parameters.collect(),
            curl: curl(method, path, &body),
            body,
            responses: responses
                .map(|(status, response)| Response::read(document, status, response))
                .collect(),
        }
    }
}

impl Response {
    pub(super) fn is_problem(&self) -> bool {
        self.status.starts_with(['4', '5'])
    }

    fn read(document: &Value, status: &str, response: &Value) -> Response {
        let content = response["content"].as_object().into_iter().flatten().next();
        let schema = content.map_or(&Value::Null, |(_, content)| &content["schema"]);
        // Every problem has the same form, which the introduction describes.
        let fields = if status == "4XX" { Vec::new() } else { fields(document, schema) };
        let described = text(&response["description"]);
        let of_schema = || text(&resolve(document, schema)["description"]);
        let description = match (described.is_empty(), status) {
            (false, _) => described,
            (true, "4XX") => "A problem: what is wrong, and what to do.".to_owned(),
            (true, "204") => "Done; the response has no body.".to_owned(),
            (true, _) => of_schema(),
        };
        Response { status: status.to_owned(), description, fields }
    }
}

/// The fields of an object, also of an optional one.
fn fields(document: &Value, schema: &Value) -> Vec<Field> {
    let schema = resolve(document, schema);
    if let Some([one, other]) = schema["oneOf"].as_array().map(Vec::as_slice)
        && let Some(of) = [(one, other), (other, one)].iter().find(|(null, _)| null["type"] == "null")
    {
        return fields(document, of.1);
    }
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)))
    };
    let own = schema["properties"].as_object().into_iter().flatten().map(|(name, of)| Field {
        name: name.clone(),
        place: "body".to_owned(),
        form: form(document, of),
        required: required(name),
        description: text(&of["description"]),
    });
    let parts = schema["allOf"].as_array().into_iter().flatten();
    let mut all: Vec<Field> = own.chain(parts.flat_map(|part| fields(document, part))).collect();
    all.sort_by_key(|field| !field.required);
    all
}

/// A type, in a few words.
fn form(document: &Value, schema: &Value) -> String {
    if let Some(all) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let forms: Vec<String> =
            all.iter().map(|one| form(document, one)).filter(|form| form != "null").collect();
        return forms.join(" or ");
    }
    if let Some(name) = schema["$ref"].as_str() {
        let target = resolve(document, schema);
        return match form(document, target) {
            plain if target["properties"].is_null() => plain,
            _ => name.rsplit('/').next().unwrap_or_default().to_owned(),
        };
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ");
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(all) => all.iter().filter_map(Value::as_str).filter(|one| *one != "null").collect(),
        _ => vec!["any"],
    };
    let shown = types.into_iter().map(|one| match one {
        "array" => format!("list of {}", form(document, &schema["items"])),
        "object" => "JSON".to_owned(),
        other => other.to_owned(),
    });
    let bounds = match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
        (Some(least), Some(most)) => format!(" {least} to {most}"),
        (None, Some(most)) => format!(" up to {most}"),
        (Some(least), None) if least != 0 => format!(" from {least}"),
        _ => String::new(),
    };
    shown.collect::<Vec<_>>().join(" or ") + &bounds
}

/// The target of a reference.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let named = schema["$ref"].as_str().and_then(|name| name.strip_prefix('#'));
    named.and_then(|pointer| document.pointer(pointer)).unwrap_or(schema)
}

/// An example command, with the required fields.
fn curl(method: &str, path: &str, body: &[Field]) -> String {
    let mut command = match method {
        "get" => String::from("curl"),
        other => format!("curl -X {}", other.to_uppercase()),
    };
    command += &format!(" http://localhost:{}{path}", crate::PORT);
    let needed = body.iter().filter(|field| field.required);
    let needed: Vec<String> = needed.map(|field| format!("\"{}\": …", field.name)).collect();
    if !body.is_empty() {
        command += &format!(" -H 'Content-Type: application/json' -d '{{{}}}'", needed.join(", "));
    }
    command
}

/// Text of the document, without the markup of Rust's documentation.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().replace('`', "")
}
