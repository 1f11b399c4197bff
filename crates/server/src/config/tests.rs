use super::*;

fn refusal(text: &str) -> String {
    Config::parse(text).unwrap_err()
}

/// Returns the example with its settings uncommented, so that each is parsed.
fn example_with_everything() -> String {
    let setting = |line: &str| {
        let bare = line.strip_prefix('#')?;
        bare.starts_with(|c: char| c.is_ascii_lowercase() || c == '[').then(|| bare.to_owned())
    };
    EXAMPLE.lines().map(|line| setting(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[test]
fn the_example_is_the_default() {
    let config = Config::parse(EXAMPLE).unwrap();
    assert_eq!(config.listen.unwrap(), [LISTEN_DEFAULT.parse().unwrap()]);
    assert_eq!(config.log.format, Some(LogFormat::default()));
    assert_eq!(config.log.level, Some(LogLevel::default()));
    assert!(config.export.is_empty() && config.data.is_none() && config.memory.is_none());
}

#[test]
fn every_setting_of_the_example_is_accepted() {
    let config = Config::parse(&example_with_everything()).unwrap();
    assert_eq!(config.memory, Some(Size(4 << 30)));
    assert_eq!(config.journal_size, Some(Size(JOURNAL_BYTES_DEFAULT)));
    assert_eq!((config.threads, config.workers, config.rpcbind), (Some(2), Some(16), Some(false)));
    let [export] = &config.export[..] else { panic!("one export") };
    assert_eq!((export.path.as_str(), export.volume.as_str()), ("/main", "main"));
    assert_eq!((export.squash, export.read_only, export.anonymous_uid), (Squash::Root, false, 65534));
    assert_eq!(export.clients.len(), 3);
    assert_eq!(export.clients[2].0.prefix_len(), 32);
}

#[test]
fn an_unknown_key_is_refused_with_its_place() {
    let sentence = refusal("memory = 1\n  lisen = []\n");
    assert!(sentence.starts_with("line 2, column 3: unknown field `lisen`"), "{sentence}");
    let sentence = refusal("[[export]]\npath = \"/a\"\nvolume = \"a\"\nro = true\n");
    assert!(sentence.starts_with("line 4, column 1: unknown field `ro`"), "{sentence}");
}

#[test]
fn wrong_values_are_refused_with_their_place() {
    let cases = [
        ("memory = \"lots\"", "line 1, column 10: \"lots\" is not a size"),
        ("memory = -1", "line 1, column 10: a size cannot be negative"),
        ("listen = [\"here\"]", "line 1, column 11: "),
        ("[[export]]\npath = \"/a\"", "line 1, column 1: missing field `volume`"),
        (
            "[[export]]\npath = \"/a\"\nvolume = \"a\"\nsquash = \"some\"",
            "line 4, column 10: unknown variant `some`",
        ),
        (
            "[[export]]\npath = \"/a\"\nvolume = \"a\"\nclients = [\"10.0.0.0/99\"]",
            "line 4, column 11: \"10.0.0.0/99\" is not a network",
        ),
        ("memory = ", "line 1, column 10: "),
        ("threads = 0", "threads must be between 1 and"),
        ("listen = []", "listen is empty"),
        ("[[export]]\npath = \"a\"\nvolume = \"a\"", "the export path \"a\" must begin with '/'"),
    ];
    for (text, expected) in cases {
        let sentence = refusal(text);
        assert!(sentence.starts_with(expected), "{text:?}: {sentence}");
        assert!(!sentence.contains('\n'), "one line: {sentence}");
    }
}

#[test]
fn two_exports_of_one_path_are_refused() {
    let export = "[[export]]\npath = \"/a\"\nvolume = \"a\"\n";
    assert!(refusal(&export.repeat(2)).contains("two exports"));
}
