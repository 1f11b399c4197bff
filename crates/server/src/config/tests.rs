use super::*;

/// The memory of the machine for which the texts are checked.
const MACHINE: Option<u64> = Some(8 << 30);

fn accepted(text: &str) -> Config {
    Config::parse("f", text, MACHINE).unwrap()
}

/// Returns the first lines of the mistakes: places and sentences.
fn refusal(text: &str) -> Vec<String> {
    let shown = Config::parse("f", text, MACHINE).unwrap_err();
    shown.lines().filter(|line| line.starts_with("f:")).map(str::to_owned).collect()
}

/// Returns the example with its settings uncommented, so that each is parsed.
fn example_with_everything() -> String {
    let setting = |line: &str| {
        let bare = line.strip_prefix('#')?;
        bare.starts_with(|c: char| c.is_ascii_lowercase() || c == '[').then(|| bare.to_owned())
    };
    // The directory of the example need not exist here, and the journal's must.
    let text = EXAMPLE.replace("/fast/", "/");
    text.lines().map(|line| setting(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[test]
fn the_example_is_the_default() {
    let config = accepted(EXAMPLE);
    assert_eq!(config.listen.unwrap(), [LISTEN_DEFAULT.parse().unwrap()]);
    assert_eq!(config.log.format, Some(LogFormat::default()));
    assert_eq!(config.log.level, Some(LogLevel::default()));
    assert!(config.export.is_empty() && config.data.is_none() && config.memory.is_none());
}

#[test]
fn every_setting_of_the_example_is_accepted() {
    let config = accepted(&example_with_everything());
    assert_eq!(config.memory, Some(Size(4 << 30)));
    assert_eq!(config.journal_size, Some(Size(JOURNAL_BYTES_DEFAULT)));
    assert_eq!((config.threads, config.workers), (Some(2), Some(16)));
    assert_eq!((config.rpcbind, config.udp), (Some(false), Some(true)));
    assert!(config.api.listen.is_some() && config.api.certificate.is_some() && config.api.key.is_some());
    assert_eq!(config.api.clients.map(|networks| networks.len()), Some(2));
    let [export] = &config.export[..] else { panic!("one export") };
    assert_eq!((export.path.as_str(), export.volume.as_str()), ("/main", "main"));
    assert_eq!((export.squash, export.read_only, export.anonymous_uid), (Squash::Root, false, 65534));
    assert_eq!(export.clients.len(), 3);
    assert_eq!(export.clients[2].prefix_len(), 32);
}

/// Checks the only mistake in `text`.
fn check_refusal(text: &str, expected: &str) {
    let mistakes = refusal(text);
    assert!(mistakes.len() == 1 && mistakes[0].starts_with(expected), "{text:?}: {mistakes:?}");
}

#[test]
fn tokens_do_not_cross_a_network_in_the_clear() {
    assert!(accepted("[api]\nlisten = \"[::1]:1\"\n").api.listen.is_some());
    let clear = "f:1:1: tokens must not cross a network in the clear";
    check_refusal("[api]\nlisten = \"0.0.0.0:9049\"\n", clear);
    check_refusal("[api]\ncertificate = \"a\"\n", "f:1:1: a certificate has a key");
    accepted("[api]\nlisten = \"0.0.0.0:9049\"\ncertificate = \"a\"\nkey = \"b\"\n");
}

#[test]
fn unknown_keys_are_refused_with_what_was_meant() {
    check_refusal("memory = \"1 GiB\"\n  lisen = []\n", "f:2:3: unknown key `lisen`: did you mean `listen`?");
    check_refusal("[[exports]]\n", "f:1:3: unknown key `exports`: did you mean `[[export]]`?");
    check_refusal("[metric]\n", "f:1:2: unknown key `metric`: did you mean `[metrics]`?");
    let export = "[[export]]\npath = \"/a\"\nvolume = \"a\"\n";
    check_refusal(&format!("{export}ro = true\n"), "f:4:1: unknown key `ro`: write `read_only = true`");
    let expected = "f:4:1: unknown key `no_root_squash`: did you mean `squash = \"none\"`?";
    check_refusal(&format!("{export}no_root_squash = true\n"), expected);
    let expected = "f:4:10: \"no_root_squash\" is an option of exports(5): did you mean `squash = \"none\"`?";
    check_refusal(&format!("{export}squash = \"no_root_squash\"\n"), expected);
    check_refusal("[log]\ncolour = true\n", "f:2:1: unknown key `colour`: the keys here are format, level");
}

#[test]
fn wrong_values_are_refused_with_what_to_write() {
    let cases = [
        ("memory = \"lots\"", "f:1:10: \"lots\" is not a size: write"),
        ("memory = \"2G\"", "f:1:10: \"2G\" is not a size: write \"2 GiB\""),
        ("memory = -1", "f:1:10: memory cannot be negative"),
        ("memory = true", "f:1:10: memory is a size"),
        ("memory = \"16 MiB\"", "f:1:10: memory is 16 MiB, which is too little: write at least \"64 MiB\""),
        (
            "memory = \"9 GiB\"",
            "f:1:10: memory is 9 GiB, but this machine, or its control group, has only 8 GiB",
        ),
        ("journal_size = 5", "f:1:16: a journal cannot be 5 bytes: write a multiple of \"16 MiB\""),
        ("journal = \"/missing/at/all\"", "f:1:11: there is no directory /missing/at"),
        ("data = [\"a\"]", "f:1:8: data is a string"),
        ("data = \"/proc/self/status\"", "f:1:8: /proc/self/status is not a directory"),
        ("listen = [\"here\"]", "f:1:11: \"here\" is not an address and a port: write"),
        ("listen = [2049]", "f:1:11: listen is a list of strings"),
        ("listen = 2049", "f:1:10: listen is a list of strings"),
        (
            "listen = \"10.0.0.1:2049, [::1]:2049\"",
            "f:1:10: listen is a list: write listen = [\"10.0.0.1:2049\", \"[::1]:2049\"]",
        ),
        (
            "listen = [\"localhost:2049\"]",
            "f:1:11: \"localhost:2049\" is not an address and a port: write \"127.0.0.1:2049\"",
        ),
        ("listen = [\"10.0.0.1:1\", \"0.0.0.0:1\"]", "f:1:11: 0.0.0.0:1 includes 10.0.0.1:1: remove"),
        ("listen = []", "f:1:10: listen is empty"),
        ("threads = 0", "f:1:11: threads is a whole number from 1 to 64"),
        (
            "workers = \"2\"",
            "f:1:11: workers is a whole number from 1 to 256: write workers = 16, without quotes",
        ),
        ("[metrics]\nslow_operation = 0", "f:2:18: slow_operation is a whole number from 1 to"),
        ("lease = \"2 min\"", "f:1:9: lease is a number of seconds from 5 to 3600: write lease = 120"),
        ("rpcbind = \"yes\"", "f:1:11: rpcbind is true or false"),
        ("udp = 2049", "f:1:7: udp is true or false"),
        ("log = \"debug\"", "f:1:7: log is a table: write [log]"),
        (
            "[log]\nlevel = \"warning\"",
            "f:2:9: level is one of \"error\", \"warn\", \"info\", \"debug\", \"trace\"; did you mean level = \"warn\"?",
        ),
        ("[export]\npath = \"/a\"", "f:1:1: there may be several exports: write [[export]]"),
        ("[[export]]\npath = \"/a\"", "f:1:1: this export has no volume: add volume = \"main\" below it"),
    ];
    for (text, expected) in cases {
        check_refusal(text, expected);
    }
}

#[test]
fn advice_fits_the_value_that_is_wrong() {
    let ends = |text: &str, advice: &str| {
        let refused = refusal(text);
        assert!(refused[0].ends_with(advice), "{refused:?}");
    };
    ends("[metrics]\nslow_operation = 0", ": write slow_operation = 1000");
    ends("lease = 1", ": write lease = 60");
    ends("lease = \"1 h\"", ": write lease = 3600, without quotes or unit");
    let export = "[[export]]\npath = \"/a\"\nvolume = \"a\"\n";
    ends(&format!("{export}anonymous_uid = -1"), " 0 to 4294967295: write anonymous_uid = 65534");
}

#[test]
fn wrong_values_of_exports_are_refused_with_what_to_write() {
    let cases = [
        ("squash = \"some\"", "f:4:10: squash is one of \"root\", \"all\", \"none\""),
        ("squash = 1", "f:4:10: squash is one of"),
        ("clients = \"10.0.0.0/8\"", "f:4:11: clients is a list: write clients = [\"10.0.0.0/8\"]"),
        (
            "clients = [\"10.0.0.0/99\"]",
            "f:4:12: \"10.0.0.0/99\" is not a network: the number after \"/\" is 0 to 32",
        ),
        ("clients = [\"10.1.2.3/8\"]", "f:4:12: \"10.1.2.3/8\" has host bits: write \"10.0.0.0/8\""),
        ("anonymous_uid = \"nobody\"", "f:4:17: anonymous_uid is a number, not a name"),
        ("read_only = 1", "f:4:13: read_only is true or false"),
    ];
    for (line, expected) in cases {
        check_refusal(&format!("[[export]]\npath = \"/a\"\nvolume = \"a\"\n{line}\n"), expected);
    }
    for (path, write) in [("a", "/a"), ("/a//b/", "/a/b"), ("/a/../b", "/a/b")] {
        let expected = format!(
            "f:2:8: the export path {path:?} must begin with / and have plain parts: write path = {write:?}"
        );
        check_refusal(&format!("[[export]]\npath = {path:?}\nvolume = \"a\"\n"), &expected);
    }
    check_refusal("[[export]]\npath = \"/a\"\nvolume = \"a/b\"\n", "f:3:10: ");
    let export = "[[export]]\npath = \"/a\"\nvolume = \"a\"\n";
    check_refusal(
        &format!("{export}{}", export.replace("volume = \"a\"", "volume = \"b\"")),
        "f:5:8: the path \"/a\" leads to two volumes, in the first and the second export of the file",
    );
}

#[test]
fn one_path_may_have_different_rules_for_different_clients() {
    let text = "[[export]]\npath = \"/a\"\nvolume = \"a\"\nclients = [\"10.0.0.0/8\"]\nsquash = \"none\"\n\
                [[export]]\npath = \"/a\"\nvolume = \"a\"\nread_only = true\n";
    let config = Config::parse("f", text, MACHINE).unwrap();
    let rules: Vec<(bool, Squash)> =
        config.export.iter().map(|export| (export.read_only, export.squash)).collect();
    assert_eq!(rules, [(false, Squash::None), (true, Squash::Root)]);
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_place() {
    check_refusal("threads = 2\nmemory = 4 GiB\n", "f:2:");
    assert!(refusal("memory = 4 GiB\n")[0].contains("are written in quotes, as in memory = \"4 GiB\""));
    assert!(refusal("/srv 10.0.0.0/8(rw)\n")[0].starts_with("f:1:"));
    assert!(refusal("/srv 10.0.0.0/8(rw)\n")[0].contains("looks like a line of /etc/exports"));
    check_refusal("threads = 2\nthreads = 3\n", "f:2:1: \"threads\" is set twice: remove one");
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let mistakes = refusal(
        "memory = \"1 MiB\"\nlisten = [\"a\", \"b\"]\n[[exports]]\n[[export]]\nvolume = \"a\"\nro = 1\n",
    );
    let places: Vec<&str> = mistakes.iter().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(places, ["f:1:10", "f:2:11", "f:2:16", "f:3:3", "f:4:1", "f:6:1"]);
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let refused = |path: &str| Config::read(Path::new(path)).unwrap_err().to_string();
    assert!(refused("/missing.toml").starts_with("there is no configuration file /missing.toml"));
    assert!(refused("/proc").contains("is a directory"));
    let path = |what: &str| std::env::temp_dir().join(format!("holdfast-{what}-{}", std::process::id()));
    // Nobody opens its other end.
    let fifo = path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    assert!(refused(fifo.to_str().unwrap()).contains("not a regular file"));
    std::fs::remove_file(&fifo).unwrap();
    let long = path("configuration");
    std::fs::File::create(&long).unwrap().set_len(1 << 30).unwrap();
    assert!(refused(long.to_str().unwrap()).contains("has more than 1 MiB"));
    std::fs::remove_file(&long).unwrap();
}
