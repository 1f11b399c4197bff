//! The content of a request: JSON, whose mistakes are told in the words of the description of what the resource takes.

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::names;

/// Reads the content of a request.
///
/// # Errors
/// A sentence that says what is wrong, and what to send.
pub(super) fn parse<T: DeserializeOwned + JsonSchema>(content: &[u8]) -> Result<T, String> {
    let value: Value = serde_json::from_slice(content)
        .map_err(|error| format!("the content of the request is not JSON: {error}"))?;
    let root = schema_for!(T).to_value();
    if let Some(mistake) = mistake(&root, &root, &value, "the content of the request") {
        return Err(mistake);
    }
    // Mistakes that a schema does not describe, such as a number out of range or a duplicate field.
    serde_json::from_slice(content)
        .map_err(|error| format!("the content of the request is not what this resource takes: {error}"))
}

/// Describes the first mistake in `value`, which is called `what`, by its schema: that of the content, or a part of it.
fn mistake(root: &Value, schema: &Value, value: &Value, what: &str) -> Option<String> {
    if let Some(place) = schema["$ref"].as_str() {
        return mistake(root, root.pointer(place.trim_start_matches('#'))?, value, what);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        // An object or null.
        let mut mistakes = choices.iter().map(|choice| mistake(root, choice, value, what));
        return mistakes.next()?.filter(|_| mistakes.all(|other| other.is_some()));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return unlisted(schema["oneOf"].as_array()?, value, what),
    };
    if !types.iter().any(|kind| is_of(kind, value)) {
        let kinds: Vec<&str> = types.iter().map(|kind| kind_name(kind)).collect();
        return Some(format!("{what} is {}, not {value}", kinds.join(" or ")));
    }
    let (fields, known) = (value.as_object()?, schema["properties"].as_object()?);
    field_mistake(schema, fields, known, what).or_else(|| {
        fields.iter().find_map(|(name, value)| mistake(root, known.get(name)?, value, &format!("`{name}`")))
    })
}

/// Describes a field that is unknown or missing.
fn field_mistake(
    schema: &Value,
    fields: &Map<String, Value>,
    known: &Map<String, Value>,
    what: &str,
) -> Option<String> {
    let all: Vec<&str> = known.keys().map(String::as_str).collect();
    if let Some(name) = fields.keys().find(|name| !known.contains_key(*name)) {
        let advice = match names::closest(&all, name) {
            Some(close) => format!("did you mean `{close}`?"),
            None => format!("the fields are {}", all.join(", ")),
        };
        return Some(format!("{what} has an unknown field `{name}`: {advice}"));
    }
    let required = schema["required"].as_array()?.iter().filter_map(Value::as_str);
    let missing = required.into_iter().find(|name| !fields.contains_key(*name))?;
    Some(format!("{what} has no field `{missing}`: add it"))
}

/// Describes a value that is none of a list of words.
fn unlisted(choices: &[Value], value: &Value, what: &str) -> Option<String> {
    let words: Vec<&Value> = choices.iter().map(|choice| &choice["const"]).collect();
    let list = || words.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    (!words.contains(&value)).then(|| format!("{what} is one of {}, not {value}", list()))
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "object" => value.is_object(),
        _ => true,
    }
}

fn kind_name(kind: &str) -> &str {
    match kind {
        "string" => "a string",
        "integer" => "a whole number",
        "object" => "a JSON object",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::api::types::{NewToken, NewVolume, QuotaChange, VolumeChange};

    #[test]
    fn mistakes_are_told_in_the_words_of_the_description() {
        let wrong = |content: &str| parse::<NewVolume>(content.as_bytes()).unwrap_err();
        let cases = [
            ("", "the content of the request is not JSON: "),
            ("[\"a\", null, null, {}]", "the content of the request is a JSON object, not ["),
            ("{}", "the content of the request has no field `name`: add it"),
            ("{\"name\": \"a\", \"size\": 1}", "has an unknown field `size`: did you mean `size_bytes`?"),
            ("{\"name\": \"a\", \"colour\": 1}", "the fields are name, pool, "),
            ("{\"name\": 7}", "`name` is a string, not 7"),
            (
                "{\"name\": \"a\", \"size_bytes\": \"1 GiB\"}",
                "`size_bytes` is a whole number or null, not \"1 GiB\"",
            ),
            ("{\"name\": \"a\", \"size_bytes\": -1}", "`size_bytes` is a whole number or null, not -1"),
            ("{\"name\": \"a\", \"root\": [1, 2]}", "`root` is a JSON object, not [1,2]"),
            ("{\"name\": \"a\", \"root\": {\"uid\": \"x\"}}", "`uid` is a whole number or null, not \"x\""),
            ("{\"name\": \"a\", \"name\": \"b\"}", "duplicate field"),
        ];
        for (content, expected) in cases {
            let said = wrong(content);
            assert!(said.contains(expected) && !said.contains("struct"), "{content}: {said}");
        }
        let said = parse::<NewToken>(b"{\"name\": \"a\", \"role\": \"root\"}").unwrap_err();
        assert_eq!(said, "`role` is one of \"viewer\", \"operator\", \"admin\", not \"root\"");
        parse::<NewToken>(b"{\"name\": \"a\", \"role\": \"admin\"}").unwrap();
        for list in ["[]", "[1]", "7"] {
            let said = parse::<QuotaChange>(format!("{{\"kind\": \"user\", \"bytes\": {list}}}").as_bytes());
            assert!(said.unwrap_err().starts_with("`bytes` is a JSON object, not"), "{list}");
        }
        let change =
            parse::<VolumeChange>(b"{\"size_bytes\": null, \"root\": {\"mode\": \"0755\"}}").unwrap();
        assert_eq!((change.name, change.size_bytes), (None, Some(None)));
    }
}
