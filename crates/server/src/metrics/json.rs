//! The metrics as JSON.

use serde_json::{Map, Value as Json, json};

use crate::metrics::registry::Family;
use crate::metrics::series::{Scrape, Series, Value};

impl Scrape {
    /// Returns the metrics as JSON: a list of families, each with its name, type, help, unit and series. A series has its labels
    /// and a value; that of a histogram has its count, its sum, and pairs of upper bounds and cumulative counts.
    #[must_use]
    pub fn json(&self) -> Json {
        Json::Array(self.families().map(|(family, series)| family_json(family, series)).collect())
    }
}

fn family_json(family: &Family, series: &[Series]) -> Json {
    let series: Vec<Json> = series.iter().map(|series| series_json(family, series)).collect();
    json!({
        "name": family.name,
        "type": family.kind.name(),
        "help": family.help,
        "unit": family.unit,
        "series": series,
    })
}

fn series_json(family: &Family, series: &Series) -> Json {
    let labels: Map<String, Json> = family
        .labels
        .iter()
        .zip(&series.labels)
        .map(|(name, label)| ((*name).to_owned(), json!(label.as_str())))
        .collect();
    let value = match &series.value {
        Value::Integer(value) => json!(value),
        Value::Real(value) => json!(value),
        Value::Histogram(buckets) => {
            json!({ "count": buckets.count, "sum": buckets.sum, "buckets": buckets.cumulative })
        }
    };
    json!({ "labels": labels, "value": value })
}
