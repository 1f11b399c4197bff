//! What clients are doing: activities, and hot files.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs::link_local::Shown;
use nfs::summary::OperationId;

use crate::clock;
use crate::counters::activity::ActivityCounters;
use crate::http::Response;
use crate::limits::{ACTIVITY_WATCHED, OBJECTS_LISTED_MAX};

use super::problem::Problem;
use super::types::{Activity, ActivityCounts, ActivityList, HotObject, PhaseTimes};
use super::{Api, Asked, json};

pub(super) mod objects;

/// Files and directories that are listed by default.
const OBJECTS_LISTED: usize = 20;

/// Client, name of the volume, operation.
type Key = (IpAddr, Arc<str>, OperationId);

/// Lists activities, and has the event loops count them for a while.
pub(super) fn list(api: &Api, asked: &Asked<'_>) -> Result<Response, Problem> {
    let measured = &api.source.measured;
    let until = clock::steady().plus(ACTIVITY_WATCHED);
    let objects_listed = asked.number("objects")?.unwrap_or(OBJECTS_LISTED).min(OBJECTS_LISTED_MAX);
    let names = measured.names();
    let mut counted: BTreeMap<Key, ActivityCounts> = BTreeMap::new();
    let mut others = ActivityCounts::default();
    for counters in &measured.counters {
        let watch = &counters.calls.activity;
        watch.ask(until);
        for (activity, counters) in watch.entries() {
            let sum = activity.and_then(|activity| {
                let name = Arc::clone(names.get(&activity.volume)?);
                Some(counted.entry((activity.client, name, activity.operation)).or_default())
            });
            sum.unwrap_or(&mut others).add(&read(&counters));
        }
    }
    let mut list = shown(counted, others, asked.page_length()?);
    list.objects = hot_objects(api, objects_listed);
    json(200, &list)
}

/// Lists the hottest files and directories.
fn hot_objects(api: &Api, most: usize) -> Vec<HotObject> {
    let (measured, now) = (&api.source.measured, clock::steady());
    let volumes = measured.volumes();
    let watches = measured.counters.iter().map(|counters| &*counters.calls.activity);
    let hottest = objects::hottest(watches, &volumes, most, now);
    let (found, counters): (Vec<_>, Vec<_>) = hottest.into_iter().unzip();
    let places = api.places.of(&found, &volumes);
    let names = measured.names();
    let shown = found.iter().zip(&places).zip(&counters).filter_map(|((object, place), counters)| {
        Some(objects::shown(names.get(&Some(object.volume))?, *object, place, counters, now))
    });
    shown.collect()
}

fn read(counters: &ActivityCounters) -> ActivityCounts {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let [queue, qos, line, engine, durability, send] = counters.phases.each_ref().map(load);
    ActivityCounts {
        calls: load(&counters.calls),
        read_bytes: load(&counters.read),
        written_bytes: load(&counters.written),
        nanoseconds: PhaseTimes { queue, qos, line, engine, durability, send },
    }
}

/// Lists those with the most calls, and adds the rest to the others.
fn shown(counted: BTreeMap<Key, ActivityCounts>, mut others: ActivityCounts, most: usize) -> ActivityList {
    let mut counted: Vec<(Key, ActivityCounts)> = counted.into_iter().collect();
    counted.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.calls));
    counted.split_off(counted.len().min(most)).iter().for_each(|(_, counts)| others.add(counts));
    let activities = counted.into_iter().map(|((client, volume, operation), counts)| Activity {
        client: Shown(client).to_string(),
        volume: volume.to_string(),
        protocol: operation.protocol().name().to_owned(),
        operation: operation.name().to_owned(),
        counts,
    });
    ActivityList { activities: activities.collect(), others, objects: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_counted_with_the_others() {
        let counts = |calls| ActivityCounts { calls, read_bytes: 10, ..ActivityCounts::default() };
        let operation = OperationId::all().next().unwrap();
        let key = |client| (IpAddr::from([192, 0, 2, client]), Arc::from("main"), operation);
        let counted = [(key(1), counts(5)), (key(2), counts(7)), (key(3), counts(6))];
        let list = shown(counted.into(), counts(100), 2);
        let clients: Vec<&str> = list.activities.iter().map(|activity| &*activity.client).collect();
        assert_eq!(clients, ["192.0.2.2", "192.0.2.3"]);
        assert_eq!((list.others.calls, list.others.read_bytes), (105, 20));
    }
}
