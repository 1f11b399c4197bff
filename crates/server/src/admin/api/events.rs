//! The newest events.

use std::str::FromStr;

use crate::events::{Event, Events};
use crate::http::Response;
use crate::limits::PAGE_LENGTH_MAX;

use super::problem::Problem;
use super::types::{Event as Shown, EventList};
use super::{Api, Asked, json};

impl From<Event> for Shown {
    fn from(event: Event) -> Shown {
        let Event { number, milliseconds, level, kind, message, fields } = event;
        Shown { number, milliseconds, level: level.to_owned(), kind, message, fields }
    }
}

/// Lists the events after a number, in order.
pub(super) fn list(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let after = asked.number("after")?.unwrap_or(0);
    json(200, &list_after(&api.source.events, after, asked.page_length()?))
}

pub(super) fn list_after(events: &Events, after: u64, most: usize) -> EventList {
    let found = events.after(after, most);
    let missed = found.first().map_or(0, |first| first.number - 1 - after);
    EventList { last: events.last(), missed, events: found.into_iter().map(Shown::from).collect() }
}

impl Asked<'_> {
    /// Returns a numeric parameter of the query, if it is present.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let text = self.request.parameter(name);
        let number = text.map(|text| {
            text.parse().map_err(|_| Problem::new(422, format!("`{name}` is a whole number, not {text:?}")))
        });
        number.transpose()
    }

    /// Returns how long a page of a list may be.
    pub(super) fn page_length(&self) -> Result<usize, Problem> {
        match self.number("limit")? {
            Some(0) => {
                Err(Problem::new(422, format!("`limit` is a number from 1 to {PAGE_LENGTH_MAX}, not 0")))
            }
            limit => Ok(limit.unwrap_or(PAGE_LENGTH_MAX).min(PAGE_LENGTH_MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::EVENTS_MAX;

    #[test]
    fn whoever_asks_again_gets_what_is_new_and_learns_what_was_missed() {
        let events = Events::default();
        for _ in 0..EVENTS_MAX + 10 {
            events.record("INFO", "mount", "export mounted", serde_json::Map::new());
        }
        let list = list_after(&events, 4, 3);
        let numbers: Vec<u64> = list.events.iter().map(|event| event.number).collect();
        assert_eq!((list.missed, numbers), (6, vec![11, 12, 13]));
        let list = list_after(&events, list.last - 1, PAGE_LENGTH_MAX);
        assert_eq!((list.missed, list.events.len(), list.last), (0, 1, EVENTS_MAX as u64 + 10));
        assert!(list_after(&events, list.last, 9).events.is_empty());
    }
}
