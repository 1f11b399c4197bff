use super::*;

const HOME: &str = "[[group]]\nname = \"home\"\naddresses = [\"10.0.0.50/24\", \"2001:db8::50/64\"]\nnodes = [\"a\", \"b\"]\n";

#[test]
fn groups_are_read() {
    let text =
        format!("{HOME}[[group]]\nname = \"work\"\naddresses = [\"10.0.0.51/24\"]\nports = [2049, 111]\n");
    let config = ClusterConfig::parse(&text).unwrap();
    let [home, work] = &config.groups[..] else { panic!("{config:?}") };
    assert_eq!((home.name.as_str(), &home.ports[..]), ("home", &[2049][..]));
    assert_eq!(home.addresses[1], "2001:db8::50/64".parse().unwrap());
    assert_eq!(home.nodes, ["a", "b"].map(|node| Name::new(node).unwrap()));
    assert_eq!((work.name.as_str(), &work.ports[..], work.nodes.len()), ("work", &[2049, 111][..], 0));
    assert_eq!(ClusterConfig::parse("").unwrap(), ClusterConfig::default());
}

#[test]
fn each_mistake_is_named() {
    for (from, to, part) in [
        ("name = \"home\"", "name = \"-home\"", "begin with a letter"),
        ("name = \"home\"", "name = 7", "in quotes"),
        ("name = \"home\"", "", "write name ="),
        ("addresses", "adresses", "unknown key `adresses`"),
        ("10.0.0.50/24", "10.0.0.50", "length of its network's prefix"),
        ("10.0.0.50/24", "127.0.0.1/8", "cannot reach 127.0.0.1"),
        ("10.0.0.50/24", "224.0.0.1/24", "cannot reach 224.0.0.1"),
        ("[\"10.0.0.50/24\", \"2001:db8::50/64\"]", "[]", "1 to 32 addresses"),
        ("[\"10.0.0.50/24\", \"2001:db8::50/64\"]", "\"10.0.0.50/24\"", "addresses is a list"),
        ("2001:db8::50/64", "10.0.0.50/16", "10.0.0.50:2049 is an address of home already"),
        ("nodes = [\"a\", \"b\"]", "nodes = [\"a\", \"a\"]", "a is there twice"),
        ("nodes = ", "ports = [0]\nnodes = ", "from 1 to 65535"),
        ("nodes = ", "ports = [70000]\nnodes = ", "from 1 to 65535"),
        ("nodes = ", "ports = []\nnodes = ", "1 to 32 addresses"),
        ("[[group]]", "[group]", "two brackets"),
        ("[[group]]", "colour = 1\n[[group]]", "unknown key `colour`"),
        ("nodes = [", "nodes = ", ""),
    ] {
        let text = HOME.replace(from, to);
        assert_ne!(text, HOME);
        let mistakes = ClusterConfig::parse(&text).unwrap_err();
        assert!(mistakes.iter().any(|mistake| mistake.sentence.contains(part)), "{text}: {mistakes:?}");
    }
    let twice = ClusterConfig::parse(&format!("{HOME}{HOME}")).unwrap_err();
    let lines: Vec<String> = twice.iter().map(Mistake::to_string).collect();
    assert_eq!(lines[0], "line 6: there are two groups \"home\"");
    assert!(lines[1].starts_with("line 7: 10.0.0.50:2049 is an address of home"), "{lines:?}");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text =
        "[[group]]\nname = \"a b\"\nports = [0]\n\n[[group]]\ncolour = 1\naddresses = [\"x\", \"y\"]\n";
    let mistakes = ClusterConfig::parse(text).unwrap_err();
    let lines: Vec<usize> = mistakes.iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, [1, 2, 3, 5, 6, 7, 7], "{mistakes:?}");
}

#[test]
fn no_text_panics() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..3000 {
        let mut bytes = HOME.repeat(random.usize(1..3)).into_bytes();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len());
            match random.u8(..3) {
                0 => bytes[at] = *random.choice(b"[]\"=\n,.{}#'\\ 0az\xc3").unwrap(),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, random.u8(b' '..b'~')),
            }
        }
        let _ = ClusterConfig::parse(&String::from_utf8_lossy(&bytes));
    }
}
