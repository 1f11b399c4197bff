//! `data` and `store`: where pools are.

use std::path::PathBuf;

use toml::de::{DeTable, DeValue};

use super::Reader;
use crate::config::convert::{Converted, text};
use crate::config::{keys, values};

impl Reader {
    /// Reads the one of `data` and `store` that is there.
    pub(super) fn data(&mut self, root: &DeTable<'_>) -> Option<PathBuf> {
        let data = self.value(root, "data", |key, value| values::data(text(key, value)?));
        let Some(value) = root.get("store") else { return data };
        if root.get("data").is_some() {
            self.wrong(value.span(), "`store` and `data` both say where pools are: remove one");
            return None;
        }
        if let DeValue::Table(table) = value.get_ref() {
            self.refuse_unknown("store", table, keys::STORE);
        }
        self.value(root, "store", store)
    }
}

/// Converts `store`: a string, or a table that names a pool of a Ceph cluster.
fn store(key: &str, value: &DeValue<'_>) -> Converted<PathBuf> {
    let DeValue::Table(table) = value else {
        return values::data(value.as_str().ok_or_else(|| {
            format!(
                "{key} is a string or a table: write {key} = \"rados:POOL\" or {key} = {{ pool = \"POOL\" }}"
            )
        })?);
    };
    let part = |name: &str| table.get(name).map(|value| text(name, value.get_ref())).transpose();
    let pool =
        part("pool")?.ok_or_else(|| format!("{key} lacks the pool: write {key} = {{ pool = \"POOL\" }}"))?;
    let mut name = "rados:".to_owned();
    if let Some(user) = part("user")? {
        name = format!("{name}{user}@");
    }
    name.push_str(pool);
    if let Some(data_pool) = part("data_pool")? {
        name = format!("{name}+{data_pool}");
    }
    if let Some(namespace) = part("namespace")? {
        name = format!("{name}/{namespace}");
    }
    values::data(&name)
}
