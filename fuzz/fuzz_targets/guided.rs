//! libFuzzer on one target, named by the variable `TARGET`: `TARGET=nfs3 cargo +nightly fuzz run guided --features guided`.
#![no_main]

use std::sync::LazyLock;

use holdfast_fuzz::targets::{TARGETS, Target};

static CHOSEN: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("TARGET").unwrap_or_default();
    TARGETS.iter().find(|target| target.name == name).expect("TARGET names a fuzz target")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    (CHOSEN.run)(data);
});
