//! The series of one scrape.

use std::sync::Arc;

use crate::limits::SERIES_MAX;
use crate::metrics::registry::{ALL, Family, Kind, SERIES_OMITTED};

/// The value of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Fixed(&'static str),
    Named(Arc<str>),
}

impl Label {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Label::Fixed(text) => text,
            Label::Named(text) => text,
        }
    }
}

impl From<&'static str> for Label {
    fn from(text: &'static str) -> Label {
        Label::Fixed(text)
    }
}

impl From<&Arc<str>> for Label {
    fn from(text: &Arc<str>) -> Label {
        Label::Named(Arc::clone(text))
    }
}

impl From<String> for Label {
    fn from(text: String) -> Label {
        Label::Named(text.into())
    }
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Integer(u64),
    Real(f64),
    Histogram(Buckets),
}

/// A histogram to be shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Buckets {
    /// The upper bounds, and how many values are at most that large. The last bound is infinite, and not among them.
    pub(super) cumulative: Vec<(f64, u64)>,
    pub(super) count: u64,
    pub(super) sum: f64,
}

impl Buckets {
    /// Makes the buckets of a histogram of `counts` whose first bound is `first`, and each further one twice the last. The last
    /// bucket has none.
    pub(super) fn doubling(counts: &[u64], first: f64, sum: f64) -> Buckets {
        let (mut bound, mut count) = (first, 0);
        let mut cumulative = Vec::with_capacity(counts.len());
        let bounded = counts.split_last().map_or(counts, |(_, bounded)| bounded);
        for more in bounded {
            count += more;
            cumulative.push((bound, count));
            bound *= 2.0;
        }
        Buckets { cumulative, count: counts.iter().sum(), sum }
    }
}

/// A series of a family.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    /// In the order of the family's labels.
    pub(super) labels: Vec<Label>,
    pub(super) value: Value,
}

impl Series {
    /// Returns how many series Prometheus makes of it.
    fn count(&self) -> usize {
        match &self.value {
            Value::Integer(_) | Value::Real(_) => 1,
            // The infinite bound, the sum and the count.
            Value::Histogram(buckets) => buckets.cumulative.len() + 3,
        }
    }
}

/// All metrics at one moment.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// By the places of their families in [`ALL`].
    families: Vec<Vec<Series>>,
}

impl Default for Scrape {
    fn default() -> Scrape {
        Scrape { families: vec![Vec::new(); ALL.len()] }
    }
}

impl Scrape {
    /// Adds a series.
    pub(super) fn push<const N: usize>(&mut self, family: &'static Family, labels: [Label; N], value: Value) {
        debug_assert_eq!(family.labels.len(), N, "{} has other labels", family.name);
        debug_assert_eq!(
            matches!(value, Value::Histogram(_)),
            family.kind == Kind::Histogram,
            "{}",
            family.name
        );
        let place = ALL.iter().position(|known| std::ptr::eq(*known, family));
        self.families[place.expect("all families are registered")]
            .push(Series { labels: labels.into(), value });
    }

    /// Adds a series whose value is a whole number.
    pub(super) fn number<const N: usize>(&mut self, family: &'static Family, labels: [Label; N], value: u64) {
        self.push(family, labels, Value::Integer(value));
    }

    /// Leaves out what exceeds the limit, the last families first, and says how much that is.
    pub(super) fn limited(self) -> Scrape {
        self.limited_to(SERIES_MAX)
    }

    fn limited_to(mut self, most: usize) -> Scrape {
        // One for the number of those that were left out.
        let (mut count, mut omitted) = (1, 0);
        for family in &mut self.families {
            family.retain(|series| {
                let fits = count + series.count() <= most;
                *(if fits { &mut count } else { &mut omitted }) += series.count();
                fits
            });
        }
        self.number(&SERIES_OMITTED, [], omitted as u64);
        self
    }

    /// Returns the families that have series.
    pub(super) fn families(&self) -> impl Iterator<Item = (&'static Family, &[Series])> {
        ALL.iter()
            .zip(&self.families)
            .map(|(family, series)| (*family, &series[..]))
            .filter(|(_, series)| !series.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::registry::{IO_SIZE, OPERATIONS, UP_VOLUMES};

    #[test]
    fn what_exceeds_the_limit_is_left_out_and_counted() {
        let mut scrape = Scrape::default();
        scrape.number(&UP_VOLUMES, [], 1);
        for volume in ["a", "b", "c"] {
            scrape.number(&OPERATIONS, [volume.into(), "nfs3".into(), "NULL".into()], 5);
        }
        let buckets = Buckets::doubling(&[1, 2, 3], 1024.0, 5000.0);
        assert_eq!((buckets.cumulative.len(), buckets.count), (2, 6));
        scrape.push(&IO_SIZE, ["a".into(), "read".into()], Value::Histogram(buckets));
        let limited = scrape.clone().limited_to(5 + 5);
        let series = |scrape: &Scrape| scrape.families().map(|(_, series)| series.len()).sum::<usize>();
        assert_eq!(series(&limited), 6);
        let omitted = |scrape: &Scrape| {
            let mut families = scrape.families();
            let (_, series) = families.find(|(family, _)| family.name == SERIES_OMITTED.name).unwrap();
            series[0].value.clone()
        };
        assert_eq!(omitted(&limited), Value::Integer(0));
        let limited = scrape.limited_to(4);
        assert_eq!((series(&limited), omitted(&limited)), (4, Value::Integer(1 + 5)));
    }
}
