//! What an operator looks for first: what is wrong, what is served to whom, how much is done, and space.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use server::admin::api::types::{Event, Export};
use server::config::size::Size;
use server::volumes::nearly_full_below;

use crate::escape;
use crate::report::{count, duration};

use super::look::{Look, Rates};

/// Exports, volumes, and faults, that are listed.
const LISTED_MAX: usize = 20;

/// How long a warning is shown.
const RECENT: Duration = Duration::from_secs(3600);

/// Events that are shown, the newest first.
const EVENTS_SHOWN_MAX: usize = 5;

/// Summarizes a server.
pub(super) fn summary(look: &Look, rates: &Rates) -> String {
    let status = &look.status;
    let mut out = format!(
        "holdfast {}, process {}, up {}\n",
        status.version,
        status.pid,
        duration(Duration::from_secs(status.uptime_seconds)),
    );
    out.push_str("\nProblems\n");
    let wrong = wrong(look, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    for sentence in wrong.iter().take(LISTED_MAX) {
        line(&mut out, format_args!("{sentence}"));
    }
    more(&mut out, wrong.len(), "(holdfast status --json)");
    if wrong.is_empty() {
        line(&mut out, format_args!("none"));
    }
    writeln!(out, "\nServing on {}", status.listen.join(", ")).expect("a String takes any text");
    let width = look.exports.iter().map(|export| export.path.chars().count()).max().unwrap_or(0);
    for export in look.exports.iter().take(LISTED_MAX) {
        line(&mut out, format_args!("{:width$}  {}", escaped(&export.path), export_text(export)));
    }
    more(&mut out, look.exports.len(), "exports (GET /v1/exports)");
    let listed = look.clients.clients.len();
    let clients = match look.clients.next {
        Some(_) => format!("{listed} or more clients"),
        None => count(listed as u64, "client"),
    };
    let connections = count(status.server.get("connections").copied().unwrap_or(0), "connection");
    line(&mut out, format_args!("{clients}, {connections}"));
    out.push_str("\nNow\n");
    line(
        &mut out,
        format_args!(
            "{:.0} operations/s, {}/s read, {}/s written",
            rates.operations,
            bytes(rates.bytes_read),
            bytes(rates.bytes_written)
        ),
    );
    out.push_str("\nSpace\n");
    let width = status.volumes.keys().map(String::len).max().unwrap_or(0);
    for name in status.volumes.keys().take(LISTED_MAX) {
        let gauge = |family| look.metrics.sum(family, &[("volume", name)]);
        let inodes = look.metrics.sum("holdfast_volume_inodes", &[("volume", name), ("state", "used")]);
        let (used, free) = (gauge("holdfast_volume_used_bytes"), gauge("holdfast_volume_free_bytes"));
        let (used, free) = (bytes(used), bytes(free));
        line(
            &mut out,
            format_args!("{name:width$}  {used} used, {free} free, {}", count(whole(inodes), "inode")),
        );
    }
    more(&mut out, status.volumes.len(), "volumes (holdfast volume list)");
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "  {text}").expect("a String takes any text");
}

/// Says how many were not listed.
fn more(out: &mut String, count: usize, what: &str) {
    if let Some(more) = count.checked_sub(LISTED_MAX).filter(|more| *more > 0) {
        line(out, format_args!("and {more} more {what}"));
    }
}

fn export_text(export: &Export) -> String {
    let access = if export.read_only { "read-only" } else { "read and write" };
    let clients = match export.clients.as_slice() {
        [] => "everybody".to_owned(),
        clients => clients.join(", "),
    };
    format!("volume {}, {access}, to {clients}", export.volume)
}

/// Returns what needs attention. `now` is the time since 1970.
fn wrong(look: &Look, now: Duration) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(why) = &look.status.reload_failed {
        // Shows the lines of the file that have mistakes.
        let lines: Vec<String> = why.lines().map(escaped).collect();
        wrong.push(format!(
            "the configuration file was rejected, so earlier exports are in force: {}",
            lines.join("\n    ")
        ));
    }
    let unreadable = whole(look.metrics.sum("holdfast_unreadable_objects", &[]));
    if unreadable > 0 {
        let objects = count(unreadable, "object");
        wrong.push(format!(
            "stored data of {objects} could not be read since the start: run `holdfast check`"
        ));
    }
    for (name, volume) in &look.status.volumes {
        if let Some(reason) = &volume.refuses_changes {
            wrong.push(format!("the volume {name} refuses changes: {reason}"));
        }
        if let Some(damage) = &volume.damage {
            wrong.push(format!("the volume {name} is damaged: {damage}"));
        }
        let gauge = |family| look.metrics.sum(family, &[("volume", name)]);
        let (used, free) = (gauge("holdfast_volume_used_bytes"), gauge("holdfast_volume_free_bytes"));
        if volume.is_full || free == 0.0 {
            wrong.push(format!("the volume {name} is full"));
        } else if whole(free) < nearly_full_below(whole(used + free)) {
            wrong.push(format!("the volume {name} is nearly full: {} free", bytes(free)));
        }
    }
    // A rejected configuration is reported above, until another one is accepted.
    let warns =
        |event: &&Event| event.level != "INFO" && event.kind != "reload_failed" && age(event, now) < RECENT;
    let shown = look.events.iter().rev().filter(warns).take(EVENTS_SHOWN_MAX);
    wrong.extend(shown.map(|event| {
        let fields = event.fields.iter().map(|(name, value)| match value.as_str() {
            Some(text) => format!(", {name} {}", escaped(text)),
            None => format!(", {name} {value}"),
        });
        let fields: String = fields.collect();
        format!("{} ago: {}{fields}", duration(age(event, now)), escaped(&event.message))
    }));
    wrong
}

fn age(event: &Event, now: Duration) -> Duration {
    now.saturating_sub(Duration::from_millis(u64::try_from(event.milliseconds).unwrap_or(0)))
}

/// Escapes text that clients may have chosen.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape::line(text, &mut out);
    out
}

/// Returns a count without its fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate or a size of fewer bytes than a 64-bit number counts"
)]
fn whole(count: f64) -> u64 {
    count.max(0.0) as u64
}

/// Writes a number of bytes with a unit.
fn bytes(count: f64) -> String {
    Size(whole(count)).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use server::admin::api::types::VolumeStatus;

    use super::*;
    use crate::commands::status::look::{Metrics, rates};

    fn metrics(operations: u64, read: u64, free: u64) -> Metrics {
        let series = |labels: serde_json::Value, value: u64| json!({ "labels": labels, "value": value });
        Metrics(json!([
            { "name": "holdfast_operations_total", "series": [
                series(json!({ "volume": "main", "op": "READ" }), operations),
                series(json!({ "volume": "", "op": "NULL" }), 1),
            ] },
            { "name": "holdfast_transferred_bytes_total", "series": [
                series(json!({ "volume": "main", "direction": "read" }), read),
            ] },
            { "name": "holdfast_volume_used_bytes", "series": [series(json!({ "volume": "main" }), 96 << 20)] },
            { "name": "holdfast_volume_free_bytes", "series": [series(json!({ "volume": "main" }), free)] },
            { "name": "holdfast_volume_inodes", "series": [
                series(json!({ "volume": "main", "state": "used" }), 12),
                series(json!({ "volume": "main", "state": "free" }), 99),
            ] },
        ]))
    }

    fn look(free: u64, events: serde_json::Value) -> Look {
        Look::of(
            serde_json::from_value(json!({
                "version": "1.2.3", "pid": 7, "uptime_seconds": 7500, "listen": ["0.0.0.0:2049"],
                "exports": ["/main"], "server": { "connections": 3 }, "calls": {},
                "volumes": { "main": { "id": "0", "refuses_changes": null, "damage": null, "is_full": false } },
                "reload_failed": null,
            }))
            .unwrap(),
            serde_json::from_value(json!([{
                "path": "/main", "volume": "main", "read_only": false, "squash": "root", "anonymous_uid": 1,
                "anonymous_gid": 1, "clients": ["192.0.2.0/24"], "require_privileged_port": false,
                "delegations": true,
            }]))
            .unwrap(),
            serde_json::from_value(events).unwrap(),
            metrics(3, 0, free),
        )
    }

    #[test]
    fn a_summary_says_what_is_served_and_that_nothing_is_wrong() {
        let found = rates(&metrics(100, 0, 0), &metrics(350, 4 << 20, 0), Duration::from_secs(2));
        let text = summary(&look(900 << 20, json!([])), &found);
        assert_eq!(
            text,
            "holdfast 1.2.3, process 7, up 2 h 5 min\n\n\
             Problems\n  none\n\n\
             Serving on 0.0.0.0:2049\n  /main  volume main, read and write, to 192.0.2.0/24\n  \
             0 clients, 3 connections\n\n\
             Now\n  125 operations/s, 2 MiB/s read, 0 bytes/s written\n\n\
             Space\n  main  96 MiB used, 900 MiB free, 12 inodes\n"
        );
    }

    #[test]
    fn what_lasts_is_shown_as_long_as_it_does() {
        let wrong_of = |look: &Look| wrong(look, Duration::from_secs(100_000));
        let mut found = look(0, json!([]));
        assert_eq!(wrong_of(&found), ["the volume main is full"]);
        found = look(500 << 30, json!([]));
        assert!(wrong_of(&found).is_empty());
        found.status.volumes.get_mut("main").unwrap().is_full = true;
        assert_eq!(wrong_of(&found), ["the volume main is full"], "its pool refuses data");
        found.status.volumes.get_mut("main").unwrap().is_full = false;
        found.status.reload_failed = Some("no volume \"home\"".to_owned());
        let sentence =
            "the configuration file was rejected, so earlier exports are in force: no volume \"home\"";
        assert_eq!(wrong_of(&found), [sentence]);
        found.status.reload_failed = Some("f:8:8: \u{1b}must\n  |\n8 | path".to_owned());
        assert!(wrong_of(&found)[0].ends_with("in force: f:8:8: \\u{1b}must\n      |\n    8 | path"));
    }

    #[test]
    fn a_rejected_configuration_is_named_once_until_another_is_accepted() {
        let event = json!({
            "number": 1, "milliseconds": 100_000_000, "level": "ERROR", "kind": "reload_failed",
            "message": "the exports in force stay", "fields": { "error": "no volume \"home\"" },
        });
        let mut found = look(500 << 30, json!([event]));
        let now = Duration::from_secs(100_000);
        assert!(wrong(&found, now).is_empty());
        found.status.reload_failed = Some("no volume \"home\"".to_owned());
        assert_eq!(wrong(&found, now).len(), 1);
    }

    #[test]
    fn much_is_listed_in_part() {
        let mut found = look(900 << 20, json!([]));
        let volume = found.status.volumes["main"].clone();
        for number in 0..30 {
            let damaged = VolumeStatus { damage: Some("lost".to_owned()), ..volume.clone() };
            found.status.volumes.insert(format!("v{number}"), damaged);
            found.exports.push(Export { path: format!("/v{number}"), ..found.exports[0].clone() });
        }
        let rates = rates(&metrics(0, 0, 0), &metrics(0, 0, 0), Duration::from_secs(1));
        let text = summary(&found, &rates);
        assert_eq!(text.matches("  the volume v").count(), LISTED_MAX);
        assert!(text.contains("and 40 more (holdfast status --json)"), "each is full too: {text}");
        assert_eq!(text.matches("read and write, to 192.0.2.0/24").count(), LISTED_MAX);
        assert!(text.contains("and 11 more exports (GET /v1/exports)"), "{text}");
        assert!(text.contains("and 11 more volumes (holdfast volume list)"), "{text}");
    }

    #[test]
    fn what_is_wrong_is_named_and_old_events_are_not() {
        let event = |number: u64, level: &str, minutes: i64| {
            json!({
                "number": number, "milliseconds": 100_000_000 - minutes * 60_000, "level": level,
                "kind": "device_error", "message": "writing failed", "fields": { "volume": "main", "bytes": 5 },
            })
        };
        let events =
            json!([event(1, "ERROR", 61), event(2, "INFO", 2), event(3, "WARN", 30), event(4, "ERROR", 1)]);
        let mut look = look(1 << 20, events);
        look.status.volumes.get_mut("main").unwrap().damage = Some("two records are lost".to_owned());
        let wrong = wrong(&look, Duration::from_secs(100_000));
        assert_eq!(
            wrong,
            [
                "the volume main is damaged: two records are lost",
                "the volume main is nearly full: 1 MiB free",
                "1 min ago: writing failed, bytes 5, volume main",
                "30 min ago: writing failed, bytes 5, volume main",
            ]
        );
    }
}
