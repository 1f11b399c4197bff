//! Two tenants share a pool, each with a volume, a quota tree and a tier, as docs/administration.md shows. One misbehaves; the other must
//! not notice.

use std::fs;
use std::process::Command;
use std::time::Duration;

use super::Options;
use super::lab::Lab;
use crate::process;

/// How many times longer than alone the quiet tenant's work may take beside the other, at the median.
const SLOWER_MAX: f64 = 2.0;

/// What is never too long for it, milliseconds: guests and server share two processors.
const SHORT: f64 = 250.0;

/// The limits of the trees.
const TREE: [&str; 4] = ["--bytes", "48MiB", "--inodes", "200"];

const TIERS: &str = "\
[tiers.silver]
total_bytes = \"32 MiB\"
total_ops = 2000

[tiers.bronze]
total_bytes = \"4 MiB\"
total_ops = 300
";

pub(super) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.configure(TIERS);
    lab.start()?;
    let mut exports = String::new();
    for (name, tier) in [("tenant-1", "silver"), ("tenant-2", "bronze")] {
        lab.holdfast(&["volume", "create"], &[name, "--size", "256MiB"])?;
        lab.holdfast(&["qos", "set"], &["--volume", name, "--tier", tier])?;
        exports += &format!("[[export]]\npath = \"/{name}\"\nvolume = \"{name}\"\nsquash = \"none\"\n\n");
    }
    lab.export(exports)?;
    process::output(Command::new("kill").args(["-HUP", &lab.process_id()?.to_string()]))?;
    lab.await_log("exports reloaded")?;
    let mut guests = [1, 2].map(|number| lab.start_guest(number, "tenants.sh", "256M", &[]));
    for number in [1, 2] {
        lab.await_file(&format!("made-{number}"), Duration::from_secs(90))?;
        let name = format!("tenant-{number}");
        lab.holdfast(&["tree", "create"], &[&name, "/project"])?;
        let limits = [&[name.as_str(), "--tree", "/project"], &TREE[..]].concat();
        lab.holdfast(&["quota", "set"], &limits)?;
    }
    lab.create_file("limited")?;
    for (number, guest) in [1, 2].into_iter().zip(&mut guests) {
        let guest = guest.as_mut().map_err(|why| why.clone())?;
        lab.finish_guest(number, guest)?;
    }
    let (alone, beside) = (times(lab, "alone")?, times(lab, "beside")?);
    let said = format!("a round took {alone} ms alone, {beside} ms beside who is throttled");
    if beside > (SLOWER_MAX * alone).max(SHORT) {
        return Err(said);
    }
    let throttled = lab.holdfast(&["qos", "show"], &["--volume", "tenant-2", "--json"])?;
    if throttled.contains("\"throttled_milliseconds\":{\"total_bytes\":0,\"total_ops\":0}") {
        return Err(format!("who misbehaves was not throttled: {throttled}"));
    }
    Ok(said)
}

/// Returns the median of the quiet tenant's rounds, milliseconds.
fn times(lab: &Lab, name: &str) -> Result<f64, String> {
    let path = lab.out().join(name);
    let text = fs::read_to_string(&path).map_err(process::at(&path))?;
    let median = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    median.ok_or_else(|| format!("{name} says {text:?}"))
}
