//! All that a server shows of itself, one member per line.

use std::fmt::Write as _;

use serde_json::Value;
use server::config::size::Size;

/// The members to show first, in this order.
const TOP: &[&str] = &["version", "pid", "uptime_seconds", "listen", "exports", "volumes", "server"];

/// Returns the status of a server as text.
pub(super) fn listing(status: &Value) -> String {
    let mut out = String::new();
    show(status, TOP, 0, &mut out);
    out
}

/// Appends the members of an object to `out`, one per line: those in `first`, then the others. Members of nested objects are
/// indented.
fn show(value: &Value, first: &[&str], indent: usize, out: &mut String) {
    let Value::Object(members) = value else { return };
    let width = members.keys().map(String::len).max().unwrap_or(0);
    let others = members.iter().filter(|(name, _)| !first.contains(&name.as_str()));
    for (name, member) in first.iter().filter_map(|name| members.get_key_value(*name)).chain(others) {
        let line = format!("{:indent$}{name:width$}  {}", "", shown(name, member));
        writeln!(out, "{}", line.trim_end()).expect("a String takes any text");
        show(member, &[], indent + 2, out);
    }
}

/// Formats a member that is not a nested object. Numbers of bytes have units.
fn shown(name: &str, member: &Value) -> String {
    match member {
        Value::Object(members) if members.is_empty() => "none".to_owned(),
        Value::Object(_) => String::new(),
        Value::String(text) => text.clone(),
        Value::Null => "no".to_owned(),
        Value::Array(items) => {
            items.iter().map(|item| item.as_str().unwrap_or_default()).collect::<Vec<_>>().join(", ")
        }
        Value::Number(number) if name.split('_').any(|word| word == "bytes") => {
            number.as_u64().map_or_else(|| number.to_string(), |bytes| Size(bytes).to_string())
        }
        other => other.to_string(),
    }
}
