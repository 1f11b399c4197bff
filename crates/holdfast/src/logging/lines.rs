//! Writes events as lines, for people or as JSON, unless the limiter leaves them out.

use std::fmt;
use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use server::admin::api::AUDIT;
use server::config::LogFormat;
use server::events::Events;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use crate::escape;
use crate::logging::event::{Fields, Value};
use crate::logging::limiter::{Limiter, Source};

/// The target of events that say what was left out. They are not counted themselves.
pub(super) const LEFT_OUT: &str = "left out";

/// Counts of the kinds of events that this program can make.
pub(super) type Counts = Limiter<Identifier>;

/// The field that names the kind of an event.
const EVENT: &str = "event";

/// The escape sequences of a terminal that end a style and begin a dim one.
const PLAIN: &str = "\u{1b}[0m";
const DIM: &str = "\u{1b}[2m";

/// How fields look.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldFormat(pub(super) LogFormat);

/// How lines look, and which are left out.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) fields: FieldFormat,
    /// Whether the terminal shows colours.
    pub(super) is_coloured: bool,
    /// The least severe level that appears. Events with a kind are kept down to INFO.
    pub(super) level: Level,
    pub(super) counts: Arc<Counts>,
    pub(super) events: Arc<Events>,
    pub(super) hasher: RandomState,
}

impl FieldFormat {
    /// Appends a field, after others.
    fn put(self, name: &str, value: &Value, out: &mut String) {
        match self.0 {
            LogFormat::Human => out.extend([" ", name, "="]),
            LogFormat::Json => out.extend([",\"", name, "\":"]),
        }
        match (value, self.0) {
            (Value::Literal(text), _) => out.push_str(text),
            (Value::Text(text), LogFormat::Human) => escape::value(text, out),
            (Value::Text(text), LogFormat::Json) => escape::json(text, out),
        }
    }

    fn all(self, fields: &Fields) -> String {
        let mut out = String::new();
        for (name, value) in &fields.named {
            // People see the kind of event by its message.
            if *name != EVENT || matches!(self.0, LogFormat::Json) {
                self.put(name, value, &mut out);
            }
        }
        out
    }

    /// Returns the pool that a span is about, from its text. Names of pools are never escaped.
    fn pool(self, span: &str) -> Option<&str> {
        match self.0 {
            LogFormat::Human => span.strip_prefix(" pool="),
            LogFormat::Json => span.strip_prefix(",\"pool\":\"")?.strip_suffix('"'),
        }
    }
}

impl<'writer> FormatFields<'writer> for FieldFormat {
    /// Writes the fields of a span, for events in it.
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'writer>, span: R) -> fmt::Result {
        let mut fields = Fields::default();
        span.record(&mut fields);
        writer.write_str(&self.all(&fields))
    }
}

impl Lines {
    /// Whether events like this one appear in the log. What administrators do is logged whatever the level.
    fn shows(&self, of: &Metadata<'static>) -> bool {
        *of.level() <= self.level || of.target() == AUDIT
    }

    /// Whether to log an event. Events that are logged only if somebody asks for them are not limited, nor is what the
    /// server says about itself without a warning.
    fn admits(&self, of: &Metadata<'static>, fields: &Fields, text: &str) -> bool {
        let source = fields.text("client").map_or(Source::Server, Source::of_client);
        if *of.level() > Level::INFO
            || (*of.level() == Level::INFO && source == Source::Server)
            || of.target() == LEFT_OUT
        {
            return true;
        }
        let hash = self.hasher.hash_one((&fields.message, text));
        self.counts.admits(of.callsite(), &fields.message, source, hash)
    }

    /// Keeps an event that names its kind, so that it can be listed.
    fn keep(&self, level: Level, fields: &Fields, pool: Option<String>) {
        let Some(kind) = fields.text(EVENT) else { return };
        let mut members = Map::new();
        for (name, value) in fields.named.iter().filter(|(name, _)| *name != EVENT) {
            let value = match value {
                Value::Literal(text) => serde_json::from_str(text).unwrap_or(Json::Null),
                Value::Text(text) => Json::from(text.as_str()),
            };
            members.insert((*name).to_owned(), value);
        }
        if let Some(pool) = pool {
            members.insert("pool".to_owned(), Json::from(pool));
        }
        self.events.record(level.as_str(), kind, &fields.message, members);
    }

    /// Returns the line of an event that begins with the time and has these fields, as text.
    fn line(&self, time: &str, level: Level, message: &str, fields: &str) -> String {
        let mut line = String::with_capacity(64 + message.len() + fields.len());
        match self.fields.0 {
            LogFormat::Human if self.is_coloured => {
                line.extend([DIM, time, PLAIN, " ", colour(level)]);
                line.push_str(&format!("{level:>5}"));
                line.extend([PLAIN, " "]);
            }
            LogFormat::Human => line.push_str(&format!("{time} {level:>5} ")),
            LogFormat::Json => {
                line.push_str(&format!("{{\"timestamp\":\"{time}\",\"level\":\"{level}\",\"message\":"));
            }
        }
        match self.fields.0 {
            LogFormat::Human => escape::line(message, &mut line),
            LogFormat::Json => escape::json(message, &mut line),
        }
        line.push_str(fields);
        line.push_str(if matches!(self.fields.0, LogFormat::Json) { "}\n" } else { "\n" });
        line
    }
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> FormatEvent<S, FieldFormat> for Lines {
    fn format_event(
        &self,
        context: &FmtContext<'_, S, FieldFormat>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if !self.shows(event.metadata()) && fields.text(EVENT).is_none() {
            return Ok(());
        }
        let (mut text, mut pool) = (self.fields.all(&fields), None);
        for span in context.event_scope().into_iter().flatten() {
            if let Some(of_span) = span.extensions().get::<FormattedFields<FieldFormat>>() {
                text.push_str(of_span);
                pool = pool.or_else(|| self.fields.pool(of_span).map(str::to_owned));
            }
        }
        if !self.admits(event.metadata(), &fields, &text) {
            return Ok(());
        }
        self.keep(*event.metadata().level(), &fields, pool);
        if !self.shows(event.metadata()) {
            return Ok(());
        }
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        writer.write_str(&self.line(&time, *event.metadata().level(), &fields.message, &text))
    }
}

/// Returns the escape sequence for a level's colour.
fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\u{1b}[31m",
        Level::WARN => "\u{1b}[33m",
        Level::INFO => "\u{1b}[32m",
        Level::DEBUG => "\u{1b}[34m",
        Level::TRACE => "\u{1b}[35m",
    }
}

#[cfg(test)]
mod tests;
