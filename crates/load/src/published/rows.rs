//! The published figures, apart from the types so that either can be reviewed alone.

use super::{Limit, Point, Row, Shape, Source, System, Tier, Unit};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Bytes per second of a mebibyte per second, and of a gigabyte.
const MIB_PER_S: f64 = 1_048_576.0;
const GB_PER_S: f64 = 1e9;

const DELL_ARRAY: Limit = Limit {
    figure: 7.0 * 1_073_741_824.0,
    unit: Unit::Bytes,
    what: "the array reads 7 GiB/s",
    source: Source::Report,
};
const DELL_LINK: Limit = Limit {
    figure: 12.5 * GB_PER_S,
    unit: Unit::Bytes,
    what: "one HDR100 link, 100 Gb/s",
    source: Source::Derived,
};
const PIXSTOR_LINKS: Limit = Limit {
    figure: 100.0 * GB_PER_S,
    unit: Unit::Bytes,
    what: "four HDR200 links, 800 Gb/s",
    source: Source::Report,
};
const PIXSTOR_DRIVES: Limit = Limit {
    figure: 27.2 * GB_PER_S,
    unit: Unit::Bytes,
    what: "half of what the drives are specified to write, as every block is written twice",
    source: Source::Derived,
};
const ANF_VOLUME: Limit = Limit {
    figure: 4500.0 * MIB_PER_S,
    unit: Unit::Bytes,
    what: "4,500 MiB/s per regular volume",
    source: Source::Documentation,
};
const OCI_80: Limit = Limit {
    figure: 10.0 * GB_PER_S,
    unit: Unit::Bytes,
    what: "80 Gb/s of the mount target",
    source: Source::Report,
};
const OCI_80_WRITE: Limit = Limit {
    figure: 5.0 * GB_PER_S,
    unit: Unit::Bytes,
    what: "40 Gb/s that the mount target is specified to write",
    source: Source::Report,
};
const OCI_20: Limit = Limit {
    figure: 2.5 * GB_PER_S,
    unit: Unit::Bytes,
    what: "20 Gb/s of the mount target",
    source: Source::Report,
};

/// A mount target of OCI File Storage with this many gigabits a second; writes have the half.
const fn mount_target(name: &'static str, gigabits: u64) -> Tier {
    let rate = gigabits * (1_000_000_000 / 8);
    Tier { name, system: System::OciFileStorage, read_bytes_per_s: rate, write_bytes_per_s: rate / 2 }
}

/// The tiers of mount targets, the lowest first.
pub const TIERS: [Tier; 4] = [
    mount_target("oci-1", 1),
    mount_target("oci-20", 20),
    mount_target("oci-40", 40),
    mount_target("oci-80", 80),
];

/// A limit of StarWind's drives.
const fn drives(figure: f64, unit: Unit, what: &'static str) -> Option<Limit> {
    Some(Limit { figure, unit, what, source: Source::Report })
}

const fn at(threads: u32, figure: f64) -> Point {
    Point { threads, figure }
}

const fn streams(write: bool, block_bytes: u64, shared_file: bool) -> Shape {
    Shape::Sequential { write, block_bytes, shared_file }
}

const fn random(read_percent: u8, block_bytes: u64) -> Shape {
    Shape::Random { read_percent, block_bytes }
}

const fn mdtest(procedure: &'static str, file_bytes: u64) -> Shape {
    Shape::Metadata { procedure, file_bytes }
}

/// The rows of each test extend a common row.
const DELL_SEQUENTIAL: Row = Row {
    id: "",
    system: System::DellHpcNfs,
    test: "IOzone 3.492, sequential N-N",
    parameters: "1 MiB blocks, 512 GiB in all (twice the memory), 16 clients, NFSv4 over IPoIB HDR100; unmounted and \
                 caches dropped between steps",
    shape: streams(false, MIB, false),
    figure: 0.0,
    unit: Unit::Bytes,
    printed: "",
    threads: None,
    points: &[],
    limit: None,
    source: Source::Report,
    note: "",
};
const DELL_RANDOM: Row = Row {
    test: "IOzone 3.492, random",
    parameters: "4 KiB blocks, 4 GiB per thread in files made before, mounted sync, the server's memory restricted",
    unit: Unit::Operations,
    note: "hard disks set the rate; the report states no limit",
    ..DELL_SEQUENTIAL
};
const DELL_MDTEST: Row = Row {
    test: "mdtest 3.3.0, empty files",
    parameters: "1 to 512 threads, 3,000 files per directory, 0.96 to 6.1 million files; caches of clients and server \
                 dropped",
    unit: Unit::Operations,
    note: "the report states no limit",
    ..DELL_SEQUENTIAL
};
const DELL_MDTEST_4K: Row = Row { test: "mdtest 3.3.0, files of 4 KiB", ..DELL_MDTEST };
const PIXSTOR: Row = Row {
    system: System::Pixstor,
    test: "IOzone, sequential N-N",
    parameters: "16 MiB blocks, 8 TiB in all, 2 servers with 16 drives each, 16 clients, 2 replicas; page pool of \
                 32 and 96 GiB",
    shape: streams(false, 16 * MIB, false),
    limit: Some(PIXSTOR_LINKS),
    ..DELL_SEQUENTIAL
};
const PIXSTOR_SHARED: Row = Row {
    test: "IOR 3.3.0, sequential N-1",
    parameters: "16 MiB blocks, one file, 1 to 512 threads, 2 servers, 16 clients, 2 replicas",
    ..PIXSTOR
};
const ANF_RANDOM: Row = Row {
    system: System::AzureNetAppFiles,
    test: "random 4 KiB, cached",
    parameters: "100 TiB Ultra volume, 1 TiB of data, 6 D32s_v5 clients, NFSv3; blocks repeat, so caches answer",
    unit: Unit::Operations,
    limit: Some(ANF_VOLUME),
    note: "",
    ..DELL_RANDOM
};
const ANF_UNCACHED: Row = Row {
    test: "random 4 KiB, uncached",
    parameters: "as cached, with blocks that do not repeat (randrepeat=0)",
    ..ANF_RANDOM
};
const ANF_8K: Row = Row { test: "random 8 KiB, uncached", ..ANF_UNCACHED };
const ANF_SEQUENTIAL: Row = Row {
    test: "sequential 64 KiB, cached",
    parameters: "100 TiB Ultra volume, 1 TiB of data, 6 D32s_v5 clients, NFSv3",
    unit: Unit::Bytes,
    ..ANF_RANDOM
};
const OCI: Row = Row {
    system: System::OciFileStorage,
    test: "fio, 1 MiB, HPMT-80",
    parameters: "two 40 Gb/s clients at once, 32 jobs each, 64 in flight per job, direct, 600 s",
    unit: Unit::Bytes,
    threads: Some(64),
    limit: Some(OCI_80),
    ..ANF_SEQUENTIAL
};
const OCI_20G: Row = Row {
    test: "fio, 1 MiB, HPMT-20",
    parameters: "one client, 32 jobs, 64 in flight per job, direct, 600 s",
    threads: Some(32),
    limit: Some(OCI_20),
    ..OCI
};
const STARWIND: Row = Row {
    system: System::StarWind,
    test: "random 4 KiB, no cache",
    parameters: "12 hosts, 2 Optane drives each; parameters of the load are not in the report",
    unit: Unit::Operations,
    threads: None,
    limit: None,
    note: "block storage, not a file server",
    ..OCI
};

/// All figures, grouped by system and test.
pub const ROWS: &[Row] = &[
    Row {
        id: "dell-seq-read",
        figure: 7.25 * GB_PER_S,
        printed: "7.25 GB/s",
        threads: Some(16),
        points: &[at(16, 7.25 * GB_PER_S)],
        limit: Some(DELL_ARRAY),
        ..DELL_SEQUENTIAL
    },
    Row {
        id: "dell-seq-write",
        shape: streams(true, MIB, false),
        figure: 5.0 * GB_PER_S,
        printed: "about 5 GB/s",
        threads: Some(8),
        points: &[at(8, 5.0 * GB_PER_S)],
        limit: Some(DELL_LINK),
        note: "the report states no limit of the array for writes, so the link is the limit",
        ..DELL_SEQUENTIAL
    },
    Row {
        id: "dell-random-read",
        shape: random(100, 4 * KIB),
        figure: 11_405.0,
        printed: "11,405 IOPS",
        threads: Some(64),
        points: &[at(64, 11_405.0)],
        ..DELL_RANDOM
    },
    Row {
        id: "dell-random-write",
        shape: random(0, 4 * KIB),
        figure: 7281.0,
        printed: "7,281 IOPS",
        threads: Some(32),
        points: &[at(32, 7281.0)],
        ..DELL_RANDOM
    },
    Row {
        id: "dell-mdtest-empty-create",
        shape: mdtest("CREATE", 0),
        figure: 88_579.0,
        printed: "88,579/s",
        threads: Some(512),
        points: &[at(512, 88_579.0)],
        ..DELL_MDTEST
    },
    Row {
        id: "dell-mdtest-empty-stat",
        shape: mdtest("STAT", 0),
        figure: 581_734.0,
        printed: "581,734/s",
        threads: Some(512),
        points: &[at(512, 581_734.0)],
        ..DELL_MDTEST
    },
    Row {
        id: "dell-mdtest-empty-remove",
        shape: mdtest("REMOVE", 0),
        figure: 87_469.0,
        printed: "87,469/s",
        threads: Some(256),
        points: &[at(256, 87_469.0)],
        ..DELL_MDTEST
    },
    Row {
        id: "dell-mdtest-4k-create",
        shape: mdtest("CREATE", 4 * KIB),
        figure: 15_600.0,
        printed: "15,600/s",
        threads: Some(256),
        points: &[at(1, 1437.0), at(256, 15_600.0)],
        note: "82.4 % fewer than empty files; the report states no limit",
        ..DELL_MDTEST_4K
    },
    Row {
        id: "dell-mdtest-4k-stat",
        shape: mdtest("STAT", 4 * KIB),
        figure: 567_753.0,
        printed: "567,753/s",
        ..DELL_MDTEST_4K
    },
    Row {
        id: "dell-mdtest-4k-read",
        shape: mdtest("READ", 4 * KIB),
        figure: 150_909.0,
        printed: "150,909/s",
        threads: Some(512),
        points: &[at(1, 5636.0), at(512, 150_909.0)],
        ..DELL_MDTEST_4K
    },
    Row {
        id: "pixstor-seq-read",
        figure: 98.7 * GB_PER_S,
        printed: "98.7 GB/s",
        threads: Some(512),
        points: &[at(128, 96.0 * GB_PER_S), at(512, 98.7 * GB_PER_S)],
        ..PIXSTOR
    },
    Row {
        id: "pixstor-seq-write",
        shape: streams(true, 16 * MIB, false),
        figure: 28.6 * GB_PER_S,
        printed: "28.6 GB/s",
        threads: Some(512),
        points: &[at(32, 26.0 * GB_PER_S), at(512, 28.6 * GB_PER_S)],
        limit: Some(PIXSTOR_DRIVES),
        ..PIXSTOR
    },
    Row {
        id: "pixstor-shared-read",
        shape: streams(false, 16 * MIB, true),
        figure: 97.3 * GB_PER_S,
        printed: "97.3 GB/s",
        threads: Some(32),
        points: &[at(32, 97.3 * GB_PER_S)],
        ..PIXSTOR_SHARED
    },
    Row {
        id: "pixstor-shared-write",
        shape: streams(true, 16 * MIB, true),
        figure: 27.1 * GB_PER_S,
        printed: "27.1 GB/s",
        threads: Some(512),
        points: &[at(512, 27.1 * GB_PER_S)],
        limit: Some(PIXSTOR_DRIVES),
        ..PIXSTOR_SHARED
    },
    Row {
        id: "anf-4k-cached-read",
        shape: random(100, 4 * KIB),
        figure: 460e3,
        printed: "460k IOPS",
        ..ANF_RANDOM
    },
    Row {
        id: "anf-4k-cached-write",
        shape: random(0, 4 * KIB),
        figure: 130e3,
        printed: "130k IOPS",
        ..ANF_RANDOM
    },
    Row {
        id: "anf-4k-uncached-read",
        shape: random(100, 4 * KIB),
        figure: 388e3,
        printed: "388k IOPS",
        ..ANF_UNCACHED
    },
    Row {
        id: "anf-4k-uncached-write",
        shape: random(0, 4 * KIB),
        figure: 120e3,
        printed: "120k IOPS",
        ..ANF_UNCACHED
    },
    Row {
        id: "anf-8k-uncached-read",
        shape: random(100, 8 * KIB),
        figure: 293e3,
        printed: "293k IOPS",
        ..ANF_8K
    },
    Row {
        id: "anf-8k-uncached-write",
        shape: random(0, 8 * KIB),
        figure: 111e3,
        printed: "111k IOPS",
        ..ANF_8K
    },
    Row {
        id: "anf-64k-cached-read",
        shape: streams(false, 64 * KIB, false),
        figure: 4500.0 * MIB_PER_S,
        printed: "4,500 MiB/s",
        ..ANF_SEQUENTIAL
    },
    Row {
        id: "anf-64k-cached-write",
        shape: streams(true, 64 * KIB, false),
        figure: 1600.0 * MIB_PER_S,
        printed: "1,600 MiB/s",
        ..ANF_SEQUENTIAL
    },
    Row {
        id: "anf-64k-uncached-read",
        test: "sequential 64 KiB, uncached",
        shape: streams(false, 64 * KIB, false),
        figure: 3600.0 * MIB_PER_S,
        printed: "3,600 MiB/s",
        ..ANF_SEQUENTIAL
    },
    Row {
        id: "anf-64k-uncached-write",
        test: "sequential 64 KiB, uncached",
        shape: streams(true, 64 * KIB, false),
        figure: 2400.0 * MIB_PER_S,
        printed: "2,400 MiB/s",
        ..ANF_SEQUENTIAL
    },
    Row {
        id: "anf-256k-uncached-read",
        test: "sequential 256 KiB, uncached",
        shape: streams(false, 256 * KIB, false),
        figure: 3500.0 * MIB_PER_S,
        printed: "3,500 MiB/s",
        ..ANF_SEQUENTIAL
    },
    Row {
        id: "anf-256k-uncached-write",
        test: "sequential 256 KiB, uncached",
        shape: streams(true, 256 * KIB, false),
        figure: 2500.0 * MIB_PER_S,
        printed: "2,500 MiB/s",
        ..ANF_SEQUENTIAL
    },
    Row {
        id: "oci80-1m-read",
        shape: streams(false, MIB, false),
        figure: 9484.0 * MIB_PER_S,
        printed: "9,484 MiB/s",
        points: &[at(64, 9484.0 * MIB_PER_S)],
        ..OCI
    },
    Row {
        id: "oci80-1m-write",
        shape: streams(true, MIB, false),
        figure: 9362.0 * MIB_PER_S,
        printed: "9,362 MiB/s",
        points: &[at(64, 9362.0 * MIB_PER_S)],
        limit: Some(OCI_80_WRITE),
        note: "twice the specification; the report's 9,459 write IOPS and its 9,362 MiB/s disagree",
        ..OCI
    },
    Row {
        id: "oci80-32k-read",
        test: "fio, 32 KiB, HPMT-80",
        shape: streams(false, 32 * KIB, false),
        figure: 128.7e3,
        unit: Unit::Operations,
        printed: "128.7k IOPS, 4,021 MiB/s",
        points: &[at(64, 128.7e3)],
        ..OCI
    },
    Row {
        id: "oci80-32k-write",
        test: "fio, 32 KiB, HPMT-80",
        shape: streams(true, 32 * KIB, false),
        figure: 60.2e3,
        unit: Unit::Operations,
        printed: "60.2k IOPS, 1,883 MiB/s",
        points: &[at(64, 60.2e3)],
        limit: Some(OCI_80_WRITE),
        ..OCI
    },
    Row {
        id: "oci80-4k-read",
        test: "fio, 4 KiB, HPMT-80",
        shape: streams(false, 4 * KIB, false),
        figure: 130.8e3,
        unit: Unit::Operations,
        printed: "130.8k IOPS, 511 MiB/s",
        points: &[at(64, 130.8e3)],
        ..OCI
    },
    Row {
        id: "oci80-4k-write",
        test: "fio, 4 KiB, HPMT-80",
        shape: streams(true, 4 * KIB, false),
        figure: 55e3,
        unit: Unit::Operations,
        printed: "55k IOPS, 214.5 MiB/s",
        points: &[at(64, 55e3)],
        limit: Some(OCI_80_WRITE),
        ..OCI
    },
    Row {
        id: "oci20-1m-read",
        shape: streams(false, MIB, false),
        figure: 2462.0 * MIB_PER_S,
        printed: "2,462 MiB/s",
        points: &[at(32, 2462.0 * MIB_PER_S)],
        ..OCI_20G
    },
    Row {
        id: "oci20-1m-write",
        shape: streams(true, MIB, false),
        figure: 1517.0 * MIB_PER_S,
        printed: "1,517 MiB/s",
        limit: None,
        note: "no limit for writes is stated",
        ..OCI_20G
    },
    Row {
        id: "oci20-32k-read",
        test: "fio, 32 KiB, HPMT-20",
        shape: streams(false, 32 * KIB, false),
        figure: 50.1e3,
        unit: Unit::Operations,
        printed: "50.1k IOPS",
        points: &[at(32, 50.1e3)],
        ..OCI_20G
    },
    Row {
        id: "oci20-32k-write",
        test: "fio, 32 KiB, HPMT-20",
        shape: streams(true, 32 * KIB, false),
        figure: 17.2e3,
        unit: Unit::Operations,
        printed: "17.2k IOPS",
        limit: None,
        note: "no limit for writes is stated",
        ..OCI_20G
    },
    Row {
        id: "oci20-4k-read",
        test: "fio, 4 KiB, HPMT-20",
        shape: streams(false, 4 * KIB, false),
        figure: 47.6e3,
        unit: Unit::Operations,
        printed: "47.6k IOPS",
        points: &[at(32, 47.6e3)],
        ..OCI_20G
    },
    Row {
        id: "oci20-4k-write",
        test: "fio, 4 KiB, HPMT-20",
        shape: streams(true, 4 * KIB, false),
        figure: 15.0e3,
        unit: Unit::Operations,
        printed: "15.0k IOPS",
        limit: None,
        note: "no limit for writes is stated",
        ..OCI_20G
    },
    Row {
        id: "starwind-4k-read",
        shape: random(100, 4 * KIB),
        figure: 6_709_997.0,
        printed: "6,709,997 IOPS",
        limit: drives(13.2e6, Unit::Operations, "the drives read 13.2 million times per second"),
        ..STARWIND
    },
    Row {
        id: "starwind-4k-90-10",
        shape: random(90, 4 * KIB),
        figure: 5_139_741.0,
        printed: "5,139,741 IOPS",
        note: "no limit is stated for this mix",
        ..STARWIND
    },
    Row {
        id: "starwind-4k-70-30",
        shape: random(70, 4 * KIB),
        figure: 3_434_870.0,
        printed: "3,434,870 IOPS",
        note: "no limit is stated for this mix",
        ..STARWIND
    },
    Row {
        id: "starwind-2m-read",
        test: "2 MiB, four drives per host",
        parameters: "12 hosts, 4 Optane drives each; parameters of the load are not in the report",
        shape: streams(false, 2 * MIB, false),
        figure: 108.38 * GB_PER_S,
        unit: Unit::Bytes,
        printed: "108.38 GB/s",
        limit: drives(112.5 * GB_PER_S, Unit::Bytes, "112.5 GB/s as the report computes it"),
        ..STARWIND
    },
    Row {
        id: "starwind-2m-write",
        test: "2 MiB, four drives per host",
        parameters: "12 hosts, 4 Optane drives each; parameters of the load are not in the report",
        shape: streams(true, 2 * MIB, false),
        figure: 100.29 * GB_PER_S,
        unit: Unit::Bytes,
        printed: "100.29 GB/s",
        note: "no limit for writes is stated",
        ..STARWIND
    },
    Row {
        id: "starwind-cache-4k-read",
        test: "random 4 KiB, write-back cache",
        parameters: "12 hosts with write-back caches that were not replicated",
        shape: random(100, 4 * KIB),
        figure: 26_834_060.0,
        printed: "26,834,060 IOPS",
        limit: drives(26.4e6, Unit::Operations, "26.4 million IOPS as the report computes it"),
        note: "the write-back cache was not replicated",
        ..STARWIND
    },
    Row {
        id: "starwind-nvmeof-4k-read",
        test: "random 4 KiB, NVMe-oF",
        parameters: "12 hosts, SPDK target and StarWind's initiator, no replication",
        shape: random(100, 4 * KIB),
        figure: 22_239_158.0,
        printed: "22,239,158 IOPS",
        limit: drives(26.4e6, Unit::Operations, "26.4 million IOPS as the report computes it"),
        note: "nothing was replicated",
        ..STARWIND
    },
];
