//! Checks JSON by the part of JSON Schema (draft 2020-12) that the description of the interface uses.

use serde_json::Value;

/// Keywords that say nothing about a value.
const NOTES: [&str; 4] = ["description", "title", "default", "$defs"];

/// Returns the schema itself, or the one that it refers to in `root`.
pub(crate) fn resolved<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    match schema["$ref"].as_str() {
        Some(place) => root.pointer(place.trim_start_matches('#')).expect("each reference has a definition"),
        None => schema,
    }
}

/// Checks a value by a schema. Returns what is wrong, and where.
///
/// # Panics
/// The schema has a keyword that is not known here, so that nothing is passed over.
pub(crate) fn check(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let schema = resolved(root, schema);
    let Some(keywords) = schema.as_object() else {
        return if schema == &Value::Bool(true) { Ok(()) } else { Err(format!("{value} is not allowed")) };
    };
    for (keyword, rule) in keywords {
        let is_kept = match keyword.as_str() {
            keyword if NOTES.contains(&keyword) => true,
            "type" => types(rule).iter().any(|kind| is_of(kind, value)),
            "const" => rule == value,
            "enum" => rule.as_array().is_some_and(|all| all.contains(value)),
            "oneOf" | "anyOf" => alternatives(rule).iter().any(|one| check(root, one, value).is_ok()),
            "format" => is_in_range(rule.as_str().unwrap_or_default(), value),
            "minimum" => value.as_f64().is_none_or(|number| Some(number) >= rule.as_f64()),
            "maximum" => value.as_f64().is_none_or(|number| Some(number) <= rule.as_f64()),
            "items" => {
                value.as_array().into_iter().flatten().try_for_each(|item| check(root, rule, item))?;
                true
            }
            "required" => {
                let names = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
                value.as_object().is_none_or(|fields| names.into_iter().all(|name| fields.contains_key(name)))
            }
            "properties" => {
                fields(value).try_for_each(|(name, field)| {
                    let described = rule.get(name).map_or(Ok(()), |schema| check(root, schema, field));
                    described.map_err(|why| format!("{name}: {why}"))
                })?;
                true
            }
            "additionalProperties" => {
                let others = fields(value).filter(|(name, _)| schema["properties"].get(name).is_none());
                others.into_iter().try_for_each(|(name, field)| {
                    check(root, rule, field).map_err(|why| format!("{name}: {why}"))
                })?;
                true
            }
            "propertyNames" => {
                fields(value).all(|(name, _)| check(root, rule, &name.as_str().into()).is_ok())
            }
            unknown => panic!("the keyword {unknown:?} is not checked: {schema}"),
        };
        if !is_kept {
            return Err(format!("{value} is not as {keyword:?} of {schema} says"));
        }
    }
    Ok(())
}

/// Returns the types that a rule names.
pub(crate) fn types(rule: &Value) -> Vec<&str> {
    match rule {
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

/// Returns the alternatives of a `oneOf` or `anyOf`; a value fits if it fits one of them.
pub(crate) fn alternatives(rule: &Value) -> &[Value] {
    rule.as_array().map_or(&[], Vec::as_slice)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn is_of(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        unknown => panic!("the type {unknown:?} is not known"),
    }
}

fn is_in_range(format: &str, value: &Value) -> bool {
    match format {
        "uint16" => value.as_u64().is_none_or(|number| u16::try_from(number).is_ok()),
        "uint32" => value.as_u64().is_none_or(|number| u32::try_from(number).is_ok()),
        "uint64" => !value.is_number() || value.is_u64(),
        "int64" => !value.is_number() || value.is_i64(),
        "double" => true,
        unknown => panic!("the format {unknown:?} is not known"),
    }
}

#[test]
fn values_that_do_not_fit_are_found() {
    let root = serde_json::json!({ "kind": { "oneOf": [{ "const": "a" }, { "const": "b" }] } });
    let schema = serde_json::json!({
        "type": "object",
        "properties": {
            "kind": { "$ref": "#/kind" },
            "number": { "type": ["integer", "null"], "format": "uint32", "minimum": 1 },
            "list": { "type": "array", "items": { "type": "string" } },
        },
        "required": ["kind"],
        "additionalProperties": false,
    });
    let is_fine = |text: &str| check(&root, &schema, &serde_json::from_str(text).unwrap()).is_ok();
    for fine in ["{\"kind\": \"a\"}", "{\"kind\": \"b\", \"number\": null, \"list\": [\"x\"]}"] {
        assert!(is_fine(fine), "{fine}");
    }
    for wrong in [
        "[]",
        "{}",
        "{\"kind\": \"c\"}",
        "{\"kind\": \"a\", \"number\": 0}",
        "{\"kind\": \"a\", \"number\": 4294967296}",
        "{\"kind\": \"a\", \"number\": \"1\"}",
        "{\"kind\": \"a\", \"list\": [1]}",
        "{\"kind\": \"a\", \"other\": 1}",
    ] {
        assert!(!is_fine(wrong), "{wrong}");
    }
}
