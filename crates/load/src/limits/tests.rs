//! The choice of the limit for a result.

use super::*;
use crate::run::Unobserved;
use crate::run::tests::fake::{Fake, Fault};
use crate::run::{Length, Options};

#[test]
fn data_is_compared_with_the_limit_of_its_direction() {
    let fake = Fake::start(Fault::None);
    let options = Options { length: Length::Operations(4), working_set_bytes: 1 << 20, ..Options::default() };
    let both = Limits {
        null_calls_per_s: Some(1e9),
        tcp_bytes_per_s: Some(2e12),
        tcp_sent_bytes_per_s: Some(1e12),
        ..Limits::default()
    };
    let received = Limits { tcp_sent_bytes_per_s: None, ..both.clone() };
    let (block_bytes, shared_file, stability) = (1 << 18, false, Stability::FileSync);
    for (workload, limits, limit, rate) in [
        (Workload::SequentialRead { block_bytes, shared_file }, &both, LimitKind::TcpLineRate, 2e12),
        (
            Workload::SequentialWrite { block_bytes, shared_file, stability },
            &both,
            LimitKind::TcpSentRate,
            1e12,
        ),
        (
            Workload::SequentialWrite { block_bytes, shared_file, stability },
            &received,
            LimitKind::TcpLineRate,
            2e12,
        ),
    ] {
        let measurement = crate::run::measure(&fake.server, &workload, &options, &mut Unobserved).unwrap();
        let fraction = limits.fraction(&measurement).unwrap();
        assert_eq!(fraction, FractionOfLimit { limit, fraction: measurement.bytes_per_s / rate });
    }
}
