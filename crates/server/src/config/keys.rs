//! Suggestions for words that the configuration does not know.

use crate::names;

/// The keys outside any table.
pub(crate) const TOP: &[&str] = &[
    "listen",
    "data",
    "store",
    "journal",
    "journal_size",
    "memory",
    "threads",
    "workers",
    "rpcbind",
    "udp",
    "lease",
    "log",
    "metrics",
    "api",
    "targets",
    "tiers",
    "export",
];

/// The keys of `store`, if it is a table.
pub(crate) const STORE: &[&str] = &["pool", "data_pool", "user", "namespace"];

/// The keys of `[log]`.
pub(crate) const LOG: &[&str] = &["format", "level"];

/// The keys of `[metrics]`.
pub(crate) const METRICS: &[&str] = &["clients", "slow_operation"];

/// The keys of `[api]`.
pub(crate) const API: &[&str] = &["listen", "certificate", "key", "clients"];

/// The keys of a table below `[tiers]`.
pub(crate) const TIER: &[&str] = &[
    "read_bytes",
    "write_bytes",
    "total_bytes",
    "read_ops",
    "write_ops",
    "metadata_ops",
    "total_ops",
    "burst",
    "total_bytes_per_tib",
];

/// The keys of `[[export]]`.
pub(crate) const EXPORT: &[&str] = &[
    "path",
    "volume",
    "read_only",
    "squash",
    "anonymous_uid",
    "anonymous_gid",
    "clients",
    "require_privileged_port",
    "delegations",
];

/// Options of exports(5), which users of other servers know, with what to write instead.
const EXPORTS_5: &[(&str, &str)] = &[
    ("rw", "write `read_only = false`, which is the default"),
    ("ro", "write `read_only = true`"),
    ("root_squash", "write `squash = \"root\"`, which is the default"),
    ("no_root_squash", "did you mean `squash = \"none\"`?"),
    ("all_squash", "did you mean `squash = \"all\"`?"),
    ("no_all_squash", "write `squash = \"root\"`, which is the default, or `squash = \"none\"`"),
    ("anonuid", "did you mean `anonymous_uid`?"),
    ("anongid", "did you mean `anonymous_gid`?"),
    ("secure", "did you mean `require_privileged_port = true`?"),
    ("insecure", "write `require_privileged_port = false`, which is the default"),
    ("sync", "remove it: replies are always durable where the protocol says so"),
    ("async", "remove it: replies are always durable where the protocol says so"),
    ("wdelay", "remove it: syncs are always shared"),
    ("no_wdelay", "remove it: syncs are always shared"),
    ("subtree_check", "remove it: an export is a whole volume"),
    ("no_subtree_check", "remove it: an export is a whole volume"),
    ("crossmnt", "remove it: clients of NFSv4 reach all exports from the root"),
    ("nohide", "remove it: clients of NFSv4 reach all exports from the root"),
    ("fsid", "remove it: each volume has an identity of its own"),
    ("sec", "remove it: the only security flavor is AUTH_SYS"),
];

/// Other words for keys.
const SYNONYMS: &[(&str, &str)] = &[
    ("address", "listen"),
    ("addresses", "listen"),
    ("bind", "listen"),
    ("host", "listen"),
    ("port", "listen"),
    ("exports", "export"),
    ("hosts", "clients"),
    ("networks", "clients"),
];

/// Says what to write instead of the unknown option of exports(5) `word`.
pub(crate) fn exports_5(word: &str) -> Option<&'static str> {
    EXPORTS_5.iter().find(|(option, _)| *option == word).map(|(_, advice)| *advice)
}

/// Says what to write instead of the unknown key `key` of `table`, whose keys are `known`.
pub(crate) fn advice(table: &str, known: &[&str], key: &str) -> String {
    if let Some(advice) = exports_5(key) {
        return if table == "export" { advice.to_owned() } else { format!("{advice} (in [[export]])") };
    }
    let synonym = SYNONYMS.iter().find(|(word, _)| *word == key).map(|(_, ours)| *ours);
    if let Some(close) = synonym.filter(|ours| known.contains(ours)).or_else(|| closest(known, key)) {
        return match close {
            "export" if table.is_empty() => "did you mean `[[export]]`?".to_owned(),
            "log" | "metrics" | "api" | "targets" | "tiers" if table.is_empty() => {
                format!("did you mean `[{close}]`?")
            }
            _ => format!("did you mean `{close}`?"),
        };
    }
    for (header, keys) in [("[[export]]", EXPORT), ("[log]", LOG), ("[metrics]", METRICS), ("[api]", API)] {
        if table.is_empty() && keys.contains(&key) {
            return format!("it belongs below {header}");
        }
    }
    if !table.is_empty() && TOP.contains(&key) {
        return "it belongs before the first line in brackets, such as [log] or [[export]]".to_owned();
    }
    format!("the keys here are {}", known.join(", "))
}

/// Returns the word of `known` that `word` probably is. Hyphens stand for underscores.
pub(crate) fn closest<'k>(known: &[&'k str], word: &str) -> Option<&'k str> {
    names::closest(known, &word.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_get_advice() {
        let cases = [
            ("", TOP, "lisen", "did you mean `listen`?"),
            ("", TOP, "journal-size", "did you mean `journal_size`?"),
            ("", TOP, "exports", "did you mean `[[export]]`?"),
            ("", TOP, "logging", "did you mean `[log]`?"),
            ("", TOP, "port", "did you mean `listen`?"),
            ("", TOP, "squash", "it belongs below [[export]]"),
            ("", TOP, "no_root_squash", "did you mean `squash = \"none\"`? (in [[export]])"),
            ("export", EXPORT, "no_root_squash", "did you mean `squash = \"none\"`?"),
            ("export", EXPORT, "ro", "write `read_only = true`"),
            ("export", EXPORT, "readonly", "did you mean `read_only`?"),
            (
                "export",
                EXPORT,
                "memory",
                "it belongs before the first line in brackets, such as [log] or [[export]]",
            ),
            ("log", LOG, "colour", "the keys here are format, level"),
        ];
        for (table, known, key, expected) in cases {
            assert_eq!(advice(table, known, key), expected, "{key}");
        }
    }
}
