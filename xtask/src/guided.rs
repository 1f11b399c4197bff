//! Coverage-guided fuzzing with libFuzzer. A stable compiler suffices: coverage is counted by LLVM passes. Sanitizers
//! would need a nightly compiler, but there is no unsafe code for them to check.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::process::{self, cargo, root, target_directory};

/// Instruments each edge and each comparison for libFuzzer.
const FLAGS: &str = "-Cpasses=sancov-module -Ccodegen-units=1 \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The targets, named as in `fuzz/src/targets.rs`.
const TARGETS: [&str; 12] = [
    "rpc",
    "xdr",
    "mount",
    "rquota",
    "nfs3",
    "nfs4",
    "compounds",
    "payloads",
    "http",
    "journal",
    "segment",
    "record",
];

/// Time limit of the build.
const BUILD: Duration = Duration::from_secs(6 * 60);
/// Time a target may take beyond its duration.
const GRACE: Duration = Duration::from_secs(30);

/// Builds the targets and runs each for `seconds`. The corpus is kept under the target directory; the next run starts
/// from it.
pub(crate) fn run_all(seconds: u64) -> Result<String, String> {
    let host = host()?;
    // With an explicit target, RUSTFLAGS do not apply to build scripts, and the output goes to a folder of its own.
    let arguments = ["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
    let mut build = cargo(&arguments);
    build.args(["--features", "guided", "--bin", "guided", "--target", &host]).env("RUSTFLAGS", FLAGS);
    let target_directory = target_directory();
    build.env("CARGO_TARGET_DIR", &target_directory);
    process::run(build, BUILD)?;
    let program = target_directory.join(host).join("release/guided");
    // libFuzzer's seeds have 32 bits; 0 means none.
    let seed = fastrand::u64(1..=1_000_000_000);
    println!("seed {seed}; an input that fails is saved under fuzz/artifacts");
    for target in TARGETS {
        let corpus = target_directory.join("corpus").join(target);
        let artifacts = root().join("fuzz/artifacts");
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(folder).map_err(process::at(folder))?;
        }
        let mut command = Command::new(&program);
        command.env("TARGET", target).env("SEEDS", &corpus);
        command.args([format!("-max_total_time={seconds}"), format!("-seed={seed}")]);
        command.args(["-timeout=10", "-verbosity=0", "-print_final_stats=1"]);
        command.arg(format!("-artifact_prefix={}/{target}-", artifacts.display())).arg(&corpus);
        println!("     {target}");
        process::run(command, Duration::from_secs(seconds) + GRACE)?;
    }
    Ok(format!("{} targets, {seconds} s each", TARGETS.len()))
}

/// The compiler's host triple.
fn host() -> Result<String, String> {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = process::output(Command::new(compiler).arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}
