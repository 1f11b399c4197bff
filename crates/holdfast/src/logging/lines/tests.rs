use std::io::{self, Write};
use std::sync::Mutex;

use tracing_subscriber::fmt::MakeWriter;

use super::*;

/// What was logged.
#[derive(Clone, Debug, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'writer> MakeWriter<'writer> for Written {
    type Writer = Written;

    fn make_writer(&'writer self) -> Written {
        self.clone()
    }
}

/// Returns what is logged by `events`, and the counts.
fn logged(format: LogFormat, events: impl FnOnce()) -> (String, Arc<Counts>) {
    logged_and_kept(format, &Arc::default(), events)
}

/// The same; events are kept in `kept`.
fn logged_and_kept(format: LogFormat, kept: &Arc<Events>, events: impl FnOnce()) -> (String, Arc<Counts>) {
    logged_at(Level::TRACE, format, kept, events)
}

/// The same, down to a level.
fn logged_at(
    level: Level,
    format: LogFormat,
    kept: &Arc<Events>,
    events: impl FnOnce(),
) -> (String, Arc<Counts>) {
    let (written, counts) = (Written::default(), Arc::default());
    let fields = FieldFormat(format);
    let lines = Lines {
        fields,
        is_coloured: false,
        level,
        counts: Arc::clone(&counts),
        events: Arc::clone(kept),
        hasher: RandomState::new(),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_writer(written.clone())
        .with_max_level(Level::TRACE)
        .fmt_fields(fields)
        .event_format(lines)
        .finish();
    tracing::subscriber::with_default(subscriber, events);
    let bytes = written.0.lock().unwrap().clone();
    (String::from_utf8(bytes).unwrap(), counts)
}

/// Logs an event as a hostile client would like it, in a span.
fn hostile() {
    let path = "/a\n2026-01-01T00:00:00Z ERROR forged client=192.0.2.9 \u{1b}[2J\u{202e}";
    tracing::error_span!("engine", volume = "main\n").in_scope(|| {
        tracing::warn!(client = %"192.0.2.1:700", %path, tries = 3, ok = false, "mount refused\n{path}");
    });
}

#[test]
fn a_line_for_people_escapes_all_text() {
    let (log, _) = logged(LogFormat::Human, hostile);
    let (time, rest) = log.split_once(' ').unwrap();
    assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
    let path = r"/a\n2026-01-01T00:00:00Z ERROR forged client=192.0.2.9 \u{1b}[2J\u{202e}";
    let expected = format!(
        " WARN mount refused\\n{path} client=192.0.2.1:700 path=\"{path}\" tries=3 ok=false volume=\"main\\n\"\n"
    );
    assert_eq!(rest, expected);
}

#[test]
fn a_line_of_json_escapes_all_text() {
    let (log, _) = logged(LogFormat::Json, hostile);
    let line = log.strip_suffix('\n').unwrap();
    assert!(line.chars().all(|char| char.is_ascii_graphic() || char == ' '), "{line}");
    let event: serde_json::Value = serde_json::from_str(line).unwrap();
    let path = "/a\n2026-01-01T00:00:00Z ERROR forged client=192.0.2.9 \u{1b}[2J\u{202e}";
    assert_eq!(event["level"], "WARN");
    assert_eq!(event["message"], format!("mount refused\n{path}"));
    assert_eq!(event["path"], path);
    assert_eq!((&event["tries"], &event["ok"]), (&3.into(), &false.into()));
    assert_eq!(event["volume"], "main\n");
}

#[test]
fn a_client_cannot_make_the_log_grow() {
    let (log, counts) = logged(LogFormat::Human, || {
        for number in 0..10_000 {
            tracing::info!(client = %format_args!("192.0.2.1:{number}"), number, "export mounted");
        }
    });
    assert!(log.len() < 1000, "{} bytes", log.len());
    let [left_out] = &counts.begin_period()[..] else { panic!("one kind") };
    assert_eq!((&left_out.message[..], left_out.count), ("export mounted", 9_995));
}

#[test]
fn errors_that_repeat_are_logged_once_for_each_volume() {
    let (log, counts) = logged(LogFormat::Human, || {
        for volume in ["a", "b", "a"] {
            let span = tracing::error_span!("engine", volume);
            span.in_scope(|| tracing::error!(of = "inode 7", "stored data could not be read"));
        }
    });
    assert_eq!(log.lines().count(), 2, "{log}");
    assert_eq!(counts.begin_period()[0].count, 1);
}

#[test]
fn what_the_server_says_about_itself_is_logged_in_full() {
    let (log, counts) = logged(LogFormat::Human, || {
        for number in 0..1000 {
            tracing::info!(number, "export");
            tracing::debug!(client = "192.0.2.1", "connection accepted");
            tracing::warn!(target: LEFT_OUT, client = "192.0.2.1", "similar events were not logged");
        }
    });
    assert_eq!((log.lines().count(), counts.begin_period().len()), (3000, 0));
}

#[test]
fn events_that_name_their_kind_are_kept_with_their_pool() {
    for format in [LogFormat::Human, LogFormat::Json] {
        let kept = Arc::default();
        let (log, _) = logged_and_kept(format, &kept, || {
            tracing::error_span!("engine", pool = "default").in_scope(|| {
                tracing::error!(event = "volume_full", free = 5, path = %"/a\n", "the volume is full");
                tracing::error!("this is none");
            });
        });
        let events = kept.after(0, usize::MAX);
        assert_eq!(events.len(), 1, "{log}");
        assert_eq!((events[0].level, events[0].kind.as_str()), ("ERROR", "volume_full"));
        assert_eq!(events[0].message, "the volume is full");
        let fields = serde_json::json!({ "free": 5, "path": "/a\n", "pool": "default" });
        assert_eq!(serde_json::Value::Object(events[0].fields.clone()), fields);
        assert_eq!(log.contains("volume_full"), matches!(format, LogFormat::Json), "{log}");
    }
}

#[test]
fn a_level_hides_neither_events_nor_what_administrators_do() {
    let kept = Arc::default();
    let (log, _) = logged_at(Level::WARN, LogFormat::Human, &kept, || {
        tracing::info!(event = "mount", client = "192.0.2.1", "export mounted");
        tracing::info!("not worth a warning");
        tracing::info!(target: AUDIT, caller = "uid 0", "administration");
        tracing::warn!("a warning");
    });
    assert_eq!(kept.after(0, usize::MAX).len(), 1);
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].contains("administration") && lines[1].contains("a warning"), "{log}");
}
