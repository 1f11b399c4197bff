//! Checks that a page has the form of XML: tags match, attributes are quoted, entities are known. Browsers would
//! accept more.

const ENTITIES: [&str; 5] = ["amp;", "lt;", "gt;", "quot;", "#39;"];

/// Checks the page.
pub(crate) fn check(page: &str) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").ok_or("no doctype")?;
    while let Some(at) = rest.find('<') {
        let (text, from) = rest.split_at(at);
        entities(text)?;
        let end = tag_end(from)?;
        let (tag, after) = (&from[1..end], &from[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let expected = open.pop().ok_or_else(|| format!("</{name}> closes nothing"))?;
            if expected != name {
                return Err(format!("</{name}> where </{expected}> should be, before {:.60}", rest));
            }
            continue;
        }
        let (body, closed) = tag.strip_suffix('/').map_or((tag, false), |body| (body, true));
        let name = body.split_ascii_whitespace().next().ok_or("a tag without a name")?.to_owned();
        attributes(body[name.len()..].trim())?;
        if name == "style" || name == "script" {
            let close = format!("</{name}>");
            rest = rest.split_once(close.as_str()).ok_or_else(|| format!("no {close}"))?.1;
        } else if !closed {
            open.push(name);
        }
    }
    entities(rest)?;
    if open.is_empty() { Ok(()) } else { Err(format!("never closed: {open:?}")) }
}

/// Returns the end of a tag. A `>` inside quotes does not end it.
fn tag_end(from: &str) -> Result<usize, String> {
    let mut quoted = false;
    for (at, c) in from.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '>' if !quoted => return Ok(at),
            _ => {}
        }
    }
    Err(format!("a tag never ends: {from:.60}"))
}

/// Checks `name="value"` pairs.
fn attributes(mut text: &str) -> Result<(), String> {
    while !text.is_empty() {
        let (name, after) = text.split_once("=\"").ok_or_else(|| format!("no value in {text:.60}"))?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(format!("{name:?} is no name of an attribute"));
        }
        let (value, after) = after.split_once('"').ok_or_else(|| format!("{name} has no end"))?;
        if value.contains('<') {
            return Err(format!("{name} holds markup: {value:.60}"));
        }
        entities(value)?;
        text = after.trim_start();
    }
    Ok(())
}

fn entities(text: &str) -> Result<(), String> {
    let mut parts = text.split('&');
    parts.next();
    match parts.find(|part| !ENTITIES.iter().any(|entity| part.starts_with(entity))) {
        None => Ok(()),
        Some(part) => Err(format!("no entity: &{part:.40}")),
    }
}

#[test]
fn the_check_finds_faults() {
    let page = |body: &str| check(&format!("<!DOCTYPE html>{body}"));
    assert_eq!(page("<p title=\"a > b\">x &amp; y<br/></p>"), Ok(()));
    for fault in
        ["<p>", "<p></b>", "</p>", "<p a=b></p>", "<p>&nbsp;</p>", "<p", "<p a=\"<\"></p>", "<script>"]
    {
        assert!(page(fault).is_err(), "{fault}");
    }
}
