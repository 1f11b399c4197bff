//! Reads the text of a configuration file. Every mistake is collected, so that all can be corrected at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use ipnet::IpNet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::convert::{
    Converted, NOBODY, choice, export_path, flag, id, number, ordinal, quoted, seconds, size, squash, text,
    volume_name,
};
use crate::config::keys;
use crate::config::mistake::{Mistake, boundary};
use crate::config::size::Size;
use crate::config::values;
use crate::config::{
    Api, Config, Export, Log, LogFormat, LogLevel, Metrics, SLOW_OPERATION_MILLISECONDS_DEFAULT,
};
use crate::limits::{
    COUNTED_CLIENTS_MAX, SLOW_OPERATION_MILLISECONDS_MAX, THREADS_MAX, WORKERS_DEFAULT, WORKERS_MAX,
};

mod rates;
mod store;

/// Returns the configuration that `text` describes on a machine with `machine` bytes of memory, or all mistakes in it. If it
/// is not TOML, only syntax errors are reported, because what follows them cannot be trusted.
pub(crate) fn parse(text: &str, machine: Option<u64>) -> Result<Config, Vec<Mistake>> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors.iter().map(|error| syntax(text, error)).collect());
    }
    let mut reader = Reader { machine, mistakes: Vec::new() };
    let config = reader.config(root.get_ref());
    if reader.mistakes.is_empty() { Ok(config) } else { Err(reader.mistakes) }
}

/// Describes an error of the TOML parser.
fn syntax(text: &str, error: &toml::de::Error) -> Mistake {
    let span = error.span().unwrap_or(0..0);
    let start = boundary(text, span.start);
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or_default().trim();
    let message = error.message().replace('\n', ", ");
    let word = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let sentence = if message.starts_with("duplicate key") {
        format!("{:?} is set twice: remove one", text.get(span.clone()).unwrap_or_default())
    } else if line.starts_with('/') {
        "this looks like a line of /etc/exports: write [[export]], and below it `path`, `volume` and `clients`".to_owned()
    } else if let (Some(advice), false) = (keys::exports_5(word), line.contains('=')) {
        format!("{word} is an option of exports(5): {advice}")
    } else if line.contains('=') && !line.contains(['"', '\'']) {
        format!("{message}; strings, sizes and addresses are written in quotes, as in memory = \"4 GiB\"")
    } else {
        message
    };
    Mistake { span, sentence }
}

struct Reader {
    /// The memory of the machine in bytes, if it is known.
    machine: Option<u64>,
    mistakes: Vec<Mistake>,
}

impl Reader {
    fn wrong(&mut self, span: Range<usize>, sentence: impl Into<String>) {
        self.mistakes.push(Mistake { span, sentence: sentence.into() });
    }

    /// Refuses the keys of a table that are not `known`.
    fn refuse_unknown(&mut self, name: &str, table: &DeTable<'_>, known: &[&str]) {
        for (key, _) in table {
            let word: &str = key.get_ref();
            if !known.contains(&word) {
                self.wrong(key.span(), format!("unknown key `{word}`: {}", keys::advice(name, known, word)));
            }
        }
    }

    /// Converts the value of `key`, if the table has it.
    fn value<T>(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        convert: impl Fn(&str, &DeValue<'_>) -> Converted<T>,
    ) -> Option<T> {
        let value = table.get(key)?;
        convert(key, value.get_ref()).map_err(|sentence| self.wrong(value.span(), sentence)).ok()
    }

    /// Converts the elements of the list `key` by `parse`, with their places.
    fn list<T>(
        &mut self,
        table: &DeTable<'_>,
        key: &str,
        parse: impl Fn(&str) -> Converted<T>,
    ) -> Option<Vec<(Range<usize>, T)>> {
        let value = table.get(key)?;
        let elements = match value.get_ref() {
            DeValue::Array(elements) => elements,
            DeValue::String(text) => {
                let parts: Vec<String> =
                    text.split([',', ' ']).filter(|part| !part.is_empty()).map(quoted).collect();
                self.wrong(value.span(), format!("{key} is a list: write {key} = [{}]", parts.join(", ")));
                return None;
            }
            _ => {
                self.wrong(value.span(), format!("{key} is a list of strings: write {key} = [\"...\"]"));
                return None;
            }
        };
        let mut found = Vec::new();
        for element in elements.iter() {
            let converted = match element.get_ref() {
                DeValue::String(text) => parse(text),
                _ => Err(format!("{key} is a list of strings: write this one in quotes")),
            };
            match converted {
                Ok(value) => found.push((element.span(), value)),
                Err(sentence) => self.wrong(element.span(), sentence),
            }
        }
        Some(found)
    }

    fn config(&mut self, root: &DeTable<'_>) -> Config {
        self.refuse_unknown("", root, keys::TOP);
        Config {
            listen: self.listen(root),
            data: self.data(root),
            journal: self.value(root, "journal", |key, value| values::journal(text(key, value)?)),
            journal_size: self
                .value(root, "journal_size", |key, value| values::check_journal_size(size(key, value)?)),
            memory: self.memory(root),
            threads: self.value(root, "threads", |key, value| number(key, value, 1..=THREADS_MAX, 1)),
            workers: self
                .value(root, "workers", |key, value| number(key, value, 1..=WORKERS_MAX, WORKERS_DEFAULT)),
            rpcbind: self.value(root, "rpcbind", flag),
            udp: self.value(root, "udp", flag),
            lease: self.value(root, "lease", seconds),
            log: self.log(root),
            metrics: self.metrics(root),
            api: self.api(root),
            targets: self.targets(root),
            tiers: self.tiers(root),
            export: self.exports(root),
        }
    }

    fn memory(&mut self, root: &DeTable<'_>) -> Option<Size> {
        let machine = self.machine;
        self.value(root, "memory", |key, value| values::check_memory(machine, size(key, value)?))
    }

    fn listen(&mut self, root: &DeTable<'_>) -> Option<Vec<std::net::SocketAddr>> {
        let found = self.list(root, "listen", values::listen)?;
        if let Some(value) = root.get("listen")
            && value.get_ref().as_array().is_some_and(|list| list.is_empty())
        {
            self.wrong(value.span(), "listen is empty: name an address and port, or remove the key");
        }
        let (spans, addresses): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        if let Err((number, sentence)) = values::check_addresses(&addresses) {
            self.wrong(spans[number].clone(), sentence);
        }
        Some(addresses)
    }

    fn log(&mut self, root: &DeTable<'_>) -> Log {
        let Some(value) = root.get("log") else { return Log::default() };
        let DeValue::Table(log) = value.get_ref() else {
            self.wrong(value.span(), "log is a table: write [log], and below it `format` and `level`");
            return Log::default();
        };
        self.refuse_unknown("log", log, keys::LOG);
        Log {
            format: self.value(log, "format", |key, value| choice(key, value, LogFormat::ALL)),
            level: self.value(log, "level", |key, value| choice(key, value, LogLevel::ALL)),
        }
    }

    fn metrics(&mut self, root: &DeTable<'_>) -> Metrics {
        let Some(value) = root.get("metrics") else { return Metrics::default() };
        let DeValue::Table(metrics) = value.get_ref() else {
            self.wrong(
                value.span(),
                "metrics is a table: write [metrics], and below it `clients` and `slow_operation`",
            );
            return Metrics::default();
        };
        self.refuse_unknown("metrics", metrics, keys::METRICS);
        Metrics {
            clients: self.value(metrics, "clients", |key, value| {
                number(key, value, 0..=COUNTED_CLIENTS_MAX, COUNTED_CLIENTS_MAX)
            }),
            slow_operation: self.value(metrics, "slow_operation", |key, value| {
                let usual = SLOW_OPERATION_MILLISECONDS_DEFAULT as usize;
                let milliseconds = number(key, value, 1..=SLOW_OPERATION_MILLISECONDS_MAX, usual)?;
                Ok(u32::try_from(milliseconds).unwrap_or(u32::MAX))
            }),
        }
    }

    fn api(&mut self, root: &DeTable<'_>) -> Api {
        let Some(value) = root.get("api") else { return Api::default() };
        let DeValue::Table(api) = value.get_ref() else {
            self.wrong(value.span(), "api is a table: write [api], and below it `listen`");
            return Api::default();
        };
        self.refuse_unknown("api", api, keys::API);
        let read = Api {
            listen: self.value(api, "listen", |key, value| values::listen(text(key, value)?)),
            certificate: self.value(api, "certificate", |key, value| text(key, value).map(PathBuf::from)),
            key: self.value(api, "key", |key, value| text(key, value).map(PathBuf::from)),
            clients: self.networks(api),
        };
        if api.contains_key("certificate") != api.contains_key("key") {
            self.wrong(value.span(), "a certificate has a key: set both `certificate` and `key`, or neither");
        } else if read.certificate.is_none() && read.listen.is_some_and(|address| !address.ip().is_loopback())
        {
            let sentence = "tokens must not cross a network in the clear: set `certificate` and `key`, or listen on 127.0.0.1";
            self.wrong(value.span(), sentence);
        }
        read
    }

    /// Returns the networks in the list `clients`.
    fn networks(&mut self, table: &DeTable<'_>) -> Option<Vec<IpNet>> {
        let found = self.list(table, "clients", values::network)?;
        Some(found.into_iter().map(|(_, network)| network).collect())
    }

    fn exports(&mut self, root: &DeTable<'_>) -> Vec<Export> {
        let Some(value) = root.get("export") else { return Vec::new() };
        let DeValue::Array(list) = value.get_ref() else {
            self.wrong(
                value.span(),
                "there may be several exports: write [[export]], in two pairs of brackets",
            );
            return Vec::new();
        };
        let mut exports: Vec<Export> = Vec::new();
        let mut volumes: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for (number, element) in list.iter().enumerate() {
            let DeValue::Table(table) = element.get_ref() else {
                self.wrong(
                    element.span(),
                    "an export is a table: write [[export]], and below it `path` and `volume`",
                );
                continue;
            };
            let Some(export) = self.export(element, table) else { continue };
            let path_span = table.get("path").map_or(element.span(), Spanned::span);
            let of_path = volumes.entry(export.path.clone()).or_insert((number, export.volume.clone()));
            if of_path.1 != export.volume {
                let sentence = format!(
                    "the path {:?} leads to two volumes, in the {} and the {} export of the file: choose another path \
                     for one of them; exports with one path differ only in `clients` and the rules for them",
                    export.path,
                    ordinal(of_path.0),
                    ordinal(number)
                );
                self.wrong(path_span, sentence);
            }
            exports.push(export);
        }
        exports
    }

    fn export(&mut self, element: &Spanned<DeValue<'_>>, table: &DeTable<'_>) -> Option<Export> {
        self.refuse_unknown("export", table, keys::EXPORT);
        for (key, example) in [("path", "/main"), ("volume", "main")] {
            if !table.contains_key(key) {
                self.wrong(
                    element.span(),
                    format!("this export has no {key}: add {key} = \"{example}\" below it"),
                );
            }
        }
        let path = self.value(table, "path", |key, value| export_path(text(key, value)?));
        let volume = self.value(table, "volume", |key, value| volume_name(text(key, value)?));
        let (read_only, squash) = (self.value(table, "read_only", flag), self.value(table, "squash", squash));
        let uid = self.value(table, "anonymous_uid", id);
        let gid = self.value(table, "anonymous_gid", id);
        let clients = self.networks(table).unwrap_or_default();
        let privileged = self.value(table, "require_privileged_port", flag);
        let delegations = self.value(table, "delegations", flag);
        Some(Export {
            path: path?,
            volume: volume?,
            read_only: read_only.unwrap_or(false),
            squash: squash.unwrap_or_default(),
            anonymous_uid: uid.unwrap_or(NOBODY),
            anonymous_gid: gid.unwrap_or(NOBODY),
            clients,
            require_privileged_port: privileged.unwrap_or(false),
            delegations: delegations.unwrap_or(true),
        })
    }
}
