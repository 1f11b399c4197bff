//! A stream of events as they happen, and of the status every second, as server-sent events (WHATWG HTML, section 9.2).
//!
//! For a follower, the server keeps nothing but the number of the last event that it sent. If the follower is too slow, the
//! oldest events are gone when it is sent the next ones, and it is told how many it missed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::admin::Source;
use crate::admin::tokens::Tokens;
use crate::http::{Body, Response};
use crate::limits::EVENTS_AT_ONCE_MAX;

use super::events::list_after;
use super::problem::Problem;
use super::types::EventList;
use super::{Api, Asked};

/// Time between two events that show the status.
const INTERVAL: Duration = Duration::from_secs(1);

/// The longest stream. Clients reconnect to get more, as browsers do by themselves.
const STREAM_MAX: Duration = Duration::from_secs(3600);

/// The status event. With very many volumes it is large, so it is made once for all followers.
#[derive(Default)]
pub(super) struct Shown(Mutex<Option<(Instant, Arc<[u8]>)>>);

impl Shown {
    /// Returns what is shown now, which is at most [`INTERVAL`] old.
    fn status(&self, source: &Source, now: Instant) -> Option<Arc<[u8]>> {
        let mut shown = self.0.lock();
        if let Some((_, status)) =
            shown.as_ref().filter(|(made, _)| now.saturating_duration_since(*made) < INTERVAL)
        {
            return Some(Arc::clone(status));
        }
        let status = serde_json::to_string(&source.status()).ok()?;
        let status: Arc<[u8]> = format!("event: status\ndata: {status}\n\n").into_bytes().into();
        *shown = Some((now, Arc::clone(&status)));
        Some(status)
    }
}

/// A stream to a follower.
struct Stream {
    source: Arc<Source>,
    shown: Arc<Shown>,
    /// The number of the last event that was sent.
    last: u64,
    next_status: Instant,
    end: Instant,
    tokens: Arc<Tokens>,
    /// The token of the peer, if it needs one. It may be deleted while the stream goes on.
    secret: Option<String>,
}

/// Sends events after the one that the peer has seen last, as it says when it connects again; without that, new ones.
pub(super) fn answer(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let source = Arc::clone(&api.source);
    let newest = source.events.last();
    let seen = asked.request.field("last-event-id").and_then(|number| number.parse().ok());
    // A server that restarted has smaller numbers.
    let last = asked.number("after")?.or(seen).unwrap_or(newest).min(newest);
    let stream = Stream {
        source,
        shown: Arc::clone(&api.live),
        last,
        next_status: Instant::now(),
        end: Instant::now() + STREAM_MAX,
        tokens: Arc::clone(&api.tokens),
        secret: asked.secret.map(str::to_owned),
    };
    Ok(Response { body: Body::Stream(Box::new(stream)), ..Response::new(200, "text/event-stream", "") })
}

impl Stream {
    /// Whether the peer may be sent more.
    fn goes_on(&self) -> bool {
        let is_deleted = |secret: &String| self.tokens.find(secret).is_none();
        Instant::now() < self.end && !self.secret.as_ref().is_some_and(is_deleted)
    }
}

impl Iterator for Stream {
    type Item = Arc<[u8]>;

    fn next(&mut self) -> Option<Arc<[u8]>> {
        while self.goes_on() {
            let list = list_after(&self.source.events, self.last, EVENTS_AT_ONCE_MAX);
            if let Some(event) = list.events.last() {
                self.last = event.number;
                return Some(written(&list)?.into_bytes().into());
            }
            let now = Instant::now();
            if now >= self.next_status {
                self.next_status = now + INTERVAL;
                return self.shown.status(&self.source, now);
            }
            self.source.events.wait_after(self.last, self.next_status);
        }
        None
    }
}

/// Writes events as they are sent.
fn written(list: &EventList) -> Option<String> {
    let mut out = String::new();
    if list.missed > 0 {
        out.push_str(&format!("event: missed\ndata: {{\"events\":{}}}\n\n", list.missed));
    }
    for event in &list.events {
        let data = serde_json::to_string(event).ok()?;
        out.push_str(&format!("id: {}\nevent: event\ndata: {data}\n\n", event.number));
    }
    Some(out)
}
