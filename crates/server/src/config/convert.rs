//! Converts single values of a configuration file. Each error is a sentence that says what to write instead.

use std::ops::RangeInclusive;

use toml::de::DeValue;

use crate::config::keys;
use crate::config::size::Size;
use crate::config::{LEASE_SECONDS, Squash};

/// A value, or the sentence that says what to write instead.
pub(super) type Converted<T> = Result<T, String>;

/// The usual user and group `nobody`.
pub(super) const NOBODY: u32 = 65534;

pub(super) fn ordinal(number: usize) -> String {
    match number {
        0 => "first".to_owned(),
        1 => "second".to_owned(),
        2 => "third".to_owned(),
        _ => format!("{}th", number + 1),
    }
}

pub(super) fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

pub(super) fn text<'v>(key: &str, value: &'v DeValue<'_>) -> Converted<&'v str> {
    value.as_str().ok_or_else(|| format!("{key} is a string: write it in quotes"))
}

pub(super) fn flag(key: &str, value: &DeValue<'_>) -> Converted<bool> {
    let wrong = || format!("{key} is true or false: write {key} = true or {key} = false, without quotes");
    value.as_bool().ok_or_else(wrong)
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// Reads a number. The error proposes the `usual` one.
pub(super) fn number(
    key: &str,
    value: &DeValue<'_>,
    range: RangeInclusive<usize>,
    usual: usize,
) -> Converted<usize> {
    let number = integer(value).and_then(|number| usize::try_from(number).ok());
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most, how) = (range.start(), range.end(), unquoted(value));
        format!("{key} is a whole number from {least} to {most}: write {key} = {usual}{how}")
    })
}

/// Says that a number has no quotes, if the value has some.
fn unquoted(value: &DeValue<'_>) -> &'static str {
    if value.is_str() { ", without quotes" } else { "" }
}

pub(super) fn id(key: &str, value: &DeValue<'_>) -> Converted<u32> {
    integer(value).and_then(|number| u32::try_from(number).ok()).ok_or_else(|| match value {
        DeValue::String(_) => {
            format!("{key} is a number, not a name: write {key} = {NOBODY}, without quotes")
        }
        _ => format!("{key} is a whole number from 0 to {}: write {key} = {NOBODY}", u32::MAX),
    })
}

pub(super) fn size(key: &str, value: &DeValue<'_>) -> Converted<Size> {
    match value {
        DeValue::String(text) => text.parse(),
        DeValue::Integer(_) => integer(value)
            .and_then(|bytes| u64::try_from(bytes).ok())
            .map(Size)
            .ok_or_else(|| format!("{key} cannot be negative or above 8 EiB: write {key} = \"4 GiB\"")),
        _ => Err(format!(
            "{key} is a size: write a whole number and a unit in quotes, such as {key} = \"4 GiB\""
        )),
    }
}

/// Reads a lease in seconds. The error for a duration with a unit names the number of seconds to write.
pub(super) fn seconds(key: &str, value: &DeValue<'_>) -> Converted<u32> {
    let number = integer(value).and_then(|number| u32::try_from(number).ok());
    if let Some(seconds) = number.filter(|seconds| LEASE_SECONDS.contains(seconds)) {
        return Ok(seconds);
    }
    let meant =
        value.as_str().and_then(seconds_of).filter(|seconds| LEASE_SECONDS.contains(seconds)).unwrap_or(60);
    let (least, most) = (LEASE_SECONDS.start(), LEASE_SECONDS.end());
    let how = if value.is_str() { ", without quotes or unit" } else { "" };
    Err(format!("{key} is a number of seconds from {least} to {most}: write {key} = {meant}{how}"))
}

fn seconds_of(text: &str) -> Option<u32> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "s" | "sec" | "seconds" => 1,
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hour" => 3600,
        _ => return None,
    };
    number.parse::<u32>().ok()?.checked_mul(factor)
}

pub(super) fn squash(key: &str, value: &DeValue<'_>) -> Converted<Squash> {
    match value.as_str().and_then(keys::exports_5) {
        Some(advice) => {
            Err(format!("{:?} is an option of exports(5): {advice}", value.as_str().unwrap_or_default()))
        }
        None => choice(key, value, Squash::ALL),
    }
}

/// Reads one of a few words.
pub(super) fn choice<T: Copy>(key: &str, value: &DeValue<'_>, all: &[(&str, T)]) -> Converted<T> {
    let word = value.as_str().unwrap_or_default();
    if let Some((_, found)) = all.iter().find(|(name, _)| *name == word) {
        return Ok(*found);
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let list = names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let close = keys::closest(&names, word)
        .map_or(String::new(), |name| format!("; did you mean {key} = \"{name}\"?"));
    Err(format!("{key} is one of {list}{close}"))
}

pub(super) fn export_path(path: &str) -> Converted<String> {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    if path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(plain)) {
        return Ok(path.to_owned());
    }
    let parts: Vec<&str> = path.split('/').filter(|part| plain(part)).collect();
    Err(format!(
        "the export path {path:?} must begin with / and have plain parts: write path = \"/{}\"",
        parts.join("/")
    ))
}

pub(super) fn volume_name(name: &str) -> Converted<String> {
    store::check_name(name).map_err(|error| error.to_string())?;
    Ok(name.to_owned())
}
