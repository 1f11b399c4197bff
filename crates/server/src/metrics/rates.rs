//! Rate limits, and what waits for them.

use crate::metrics::Source;
use crate::metrics::registry::{QOS_LIMIT, QOS_THROTTLED, QOS_THROTTLED_SECONDS};
use crate::metrics::series::{Scrape, Value};
use crate::rates::Kind;
use crate::rates::catalogue::OTHER_CLIENTS;
use crate::rates::setting::Rate;

/// Adds the limits of targets, pools and volumes. Clients are too many: of them, what holds for those without limits of their own,
/// and how they are throttled together.
pub(super) fn add(source: &Source, scrape: &mut Scrape) {
    for limited in source.rates.list() {
        if limited.kind == Kind::Client && limited.name != OTHER_CLIENTS {
            continue;
        }
        for rate in Rate::ALL {
            let labels = || [limited.kind.name().into(), limited.name.clone().into(), rate.name().into()];
            if let Some(most) = limited.in_force.limits.rate(rate.dimension()) {
                scrape.number(&QOS_LIMIT, labels(), most);
                let counters = &limited.in_force.counters;
                let seconds = counters.throttled[rate as usize].as_secs_f64();
                scrape.push(&QOS_THROTTLED_SECONDS, labels(), Value::Real(seconds));
                scrape.number(&QOS_THROTTLED, labels(), counters.held[rate as usize]);
            }
        }
    }
}
