//! Two samples of a server's activity, and the difference between them.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::admin;
use server::admin::api::types::{Activity, ActivityCounts, ActivityList, HotObject, ObjectCounts, Status};
use server::error::Error;

/// The most activities, and the most files and directories, to request.
const MOST: usize = 1000;
const OBJECTS_MOST: usize = 100;

/// What a server showed at one moment.
pub(super) struct Sample {
    status: Status,
    list: ActivityList,
    at: Instant,
}

/// What was done between two samples.
pub(super) struct Interval {
    pub(super) version: String,
    pub(super) uptime: Duration,
    pub(super) connections: u64,
    pub(super) seconds: f64,
    /// Activities with calls in between.
    pub(super) activities: Vec<Activity>,
    /// All other calls.
    pub(super) others: ActivityCounts,
    /// Files and directories with calls in between, the hottest first.
    pub(super) objects: Vec<HotObject>,
}

impl Sample {
    /// Asks the server of a data directory.
    pub(super) fn take(data: &Path) -> Result<Sample, Error> {
        let status = admin::status(data)?;
        let list = admin::get(data, &format!("/v1/activity?limit={MOST}&objects={OBJECTS_MOST}"))?;
        Ok(Sample { status, list, at: Instant::now() })
    }
}

impl Interval {
    /// Compares two samples. If the server restarted in between, or began to count anew, the later one counts from zero.
    pub(super) fn between(earlier: &Sample, later: &Sample) -> Interval {
        let seconds = later.at.saturating_duration_since(earlier.at).as_secs_f64().max(0.001);
        let status = &later.status;
        Interval {
            version: status.version.clone(),
            uptime: Duration::from_secs(status.uptime_seconds),
            connections: status.server.get("connections").copied().unwrap_or(0),
            seconds,
            activities: activities_since(&earlier.list, &later.list),
            others: counts_since(&earlier.list.others, &later.list.others),
            objects: objects_since(&earlier.list.objects, &later.list.objects, seconds),
        }
    }

    /// Returns the sum over all calls.
    pub(super) fn total(&self) -> ActivityCounts {
        let mut total = self.others;
        self.activities.iter().for_each(|activity| total.add(&activity.counts));
        total
    }

    /// Returns the interval as JSON.
    pub(super) fn json(&self) -> Value {
        json!({
            "version": self.version,
            "uptime_seconds": self.uptime.as_secs(),
            "connections": self.connections,
            "interval_seconds": self.seconds,
            "activities": self.activities,
            "others": self.others,
            "objects": self.objects,
        })
    }
}

fn activities_since(earlier: &ActivityList, later: &ActivityList) -> Vec<Activity> {
    type Key<'a> = (&'a str, &'a str, &'a str, &'a str);
    fn key(activity: &Activity) -> Key<'_> {
        (&activity.client, &activity.volume, &activity.protocol, &activity.operation)
    }
    let before: HashMap<Key<'_>, &ActivityCounts> =
        earlier.activities.iter().map(|activity| (key(activity), &activity.counts)).collect();
    let since = |activity: &Activity| {
        let counts = match before.get(&key(activity)) {
            Some(before) => counts_since(before, &activity.counts),
            None if earlier.others.calls == 0 => activity.counts,
            // It may have been counted among the others, so its increase is unknown.
            None => ActivityCounts::default(),
        };
        Activity { counts, ..activity.clone() }
    };
    later.activities.iter().map(since).filter(|activity| activity.counts.calls > 0).collect()
}

/// Returns the activity of objects in the `seconds` between two lists. An object that was counted earlier but not listed is
/// left out, since its activity in between is not known.
fn objects_since(earlier: &[HotObject], later: &[HotObject], seconds: f64) -> Vec<HotObject> {
    let key = |object: &HotObject| (object.volume.clone(), object.inode);
    let before: HashMap<(String, u64), &HotObject> =
        earlier.iter().map(|object| (key(object), object)).collect();
    // A list with room for more names all that were counted. Otherwise times tell, but not exactly: the server may count before its
    // first reply arrives.
    let are_all_listed = earlier.len() < OBJECTS_MOST;
    let is_new = |object: &HotObject| {
        are_all_listed || Duration::from_millis(object.counted_milliseconds).as_secs_f64() <= seconds
    };
    let since = |object: &HotObject| {
        let is_continued = |before: &&&HotObject| before.counts.calls <= object.counts.calls;
        let counts = match before.get(&key(object)).filter(is_continued) {
            Some(before) => object.counts.with(&before.counts, u64::saturating_sub),
            None if is_new(object) => object.counts,
            None => ObjectCounts::default(),
        };
        HotObject { counts, ..object.clone() }
    };
    later.iter().map(since).filter(|object| object.counts.calls > 0).collect()
}

fn counts_since(earlier: &ActivityCounts, later: &ActivityCounts) -> ActivityCounts {
    if later.calls < earlier.calls { *later } else { later.since(earlier) }
}

#[cfg(test)]
impl Interval {
    /// Makes an interval of two seconds for tests: client, volume, protocol, operation, calls, bytes read and written, and
    /// microseconds of the phases of all calls.
    pub(super) fn of(activities: &[(&str, &str, &str, &str, u64, u64, u64, [u64; 6])]) -> Interval {
        use server::admin::api::types::PhaseTimes;
        let activities = activities.iter().map(|activity| {
            let (client, volume, protocol, operation, calls, read_bytes, written_bytes, micros) = *activity;
            let [queue, qos, line, engine, durability, send] = micros.map(|micros| micros * 1000);
            let nanoseconds = PhaseTimes { queue, qos, line, engine, durability, send };
            let counts = ActivityCounts { calls, read_bytes, written_bytes, nanoseconds };
            let [client, volume, protocol, operation] =
                [client, volume, protocol, operation].map(str::to_owned);
            Activity { client, volume, protocol, operation, counts }
        });
        Interval {
            version: "1.2.3".to_owned(),
            uptime: Duration::from_secs(7500),
            connections: 3,
            seconds: 2.0,
            activities: activities.collect(),
            others: ActivityCounts::default(),
            objects: Vec::new(),
        }
    }

    /// Adds an object: volume, inode number, kind, path, calls by kind, bytes read and written.
    pub(super) fn and_object(
        mut self,
        (volume, inode, kind, path): (&str, u64, &str, Option<&str>),
        calls: [u64; 4],
        [read_bytes, written_bytes]: [u64; 2],
    ) -> Interval {
        use server::admin::api::types::CallKinds;
        let [read, write, name, other] = calls;
        let kinds = CallKinds { read, write, name, other };
        let counts = ObjectCounts { calls: calls.iter().sum(), read_bytes, written_bytes, kinds };
        self.objects.push(HotObject {
            volume: volume.to_owned(),
            inode,
            kind: kind.to_owned(),
            path: path.map(str::to_owned),
            counted_milliseconds: 60_000,
            counts,
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(counts: &[(&str, u64)], others: u64) -> ActivityList {
        let counted = |calls| ActivityCounts { calls, ..ActivityCounts::default() };
        let activity = |(client, calls): &(&str, u64)| Activity {
            client: (*client).to_owned(),
            volume: "main".to_owned(),
            protocol: "nfs3".to_owned(),
            operation: "READ".to_owned(),
            counts: counted(*calls),
        };
        let activities = counts.iter().map(activity).collect();
        ActivityList { activities, others: counted(others), objects: Vec::new() }
    }

    fn since(earlier: &ActivityList, later: &ActivityList) -> Vec<(String, u64)> {
        let found = activities_since(earlier, later);
        found.into_iter().map(|activity| (activity.client, activity.counts.calls)).collect()
    }

    #[test]
    fn activities_count_since_the_sample_before() {
        let earlier = list(&[("a", 10), ("b", 5), ("c", 9)], 0);
        let later = list(&[("a", 14), ("b", 5), ("c", 2), ("d", 3)], 0);
        let expected = [("a", 4), ("c", 2), ("d", 3)].map(|(client, calls)| (client.to_owned(), calls));
        assert_eq!(since(&earlier, &later), expected);
    }

    #[test]
    fn objects_count_since_the_sample_before_or_since_they_are_counted() {
        let object = |inode, read, counted_milliseconds| {
            let counts = ObjectCounts { calls: read, read_bytes: 10 * read, ..ObjectCounts::default() };
            let (volume, kind, path) = ("main".to_owned(), "file".to_owned(), None);
            HotObject { volume, inode, kind, path, counted_milliseconds, counts }
        };
        let mut earlier = vec![object(1, 10, 60_000), object(2, 10, 60_000), object(3, 10, 60_000)];
        let later = [
            object(1, 14, 62_000),
            object(2, 10, 62_000),
            // It left the server's sketch and came back.
            object(3, 4, 1000),
            object(4, 5, 500),
            object(5, 40, 8000),
        ];
        let found = |earlier: &[HotObject]| -> Vec<_> {
            let found = objects_since(earlier, &later, 2.0);
            found.iter().map(|object| (object.inode, object.counts.calls, object.counts.read_bytes)).collect()
        };
        // The reply to the first request came late.
        assert_eq!(found(&earlier), [(1, 4, 40), (3, 4, 40), (4, 5, 50), (5, 40, 400)]);
        earlier.extend((100..).map(|inode| object(inode, 1, 60_000)).take(OBJECTS_MOST));
        // The last one may have been counted before, but not listed.
        assert_eq!(found(&earlier), [(1, 4, 40), (3, 4, 40), (4, 5, 50)]);
    }

    #[test]
    fn what_was_among_the_others_before_begins_when_it_is_listed() {
        let earlier = list(&[("a", 10)], 1);
        let later = list(&[("b", 5000), ("a", 11)], 0);
        assert_eq!(since(&earlier, &later), [("a".to_owned(), 1)]);
        assert_eq!(since(&later, &list(&[("b", 5007)], 0)), [("b".to_owned(), 7)]);
    }
}
