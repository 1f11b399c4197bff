//! Runs libFuzzer on the target that the variable `TARGET` names, from its seeds, which are first written to the folder
//! `SEEDS`. `cargo xtask soak fuzz` builds and runs it.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use holdfast_fuzz::targets::{TARGETS, Target};

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("TARGET").unwrap_or_default();
    TARGETS.iter().find(|target| target.name == name).expect("TARGET names a fuzz target")
});

fn write_seeds() {
    let folder = std::env::var_os("SEEDS").expect("SEEDS names a folder");
    for (number, seed) in (CHOSEN.seeds)().iter().enumerate() {
        std::fs::write(Path::new(&folder).join(format!("seed-{number}")), seed)
            .expect("SEEDS can be written");
    }
}

libfuzzer_sys::fuzz_target!(
    init: write_seeds(),
    |data: &[u8]| {
        (CHOSEN.run)(data);
    }
);
