use super::*;

#[test]
fn times_before_1970_have_their_seconds_rounded_down() {
    let time = Time::from_nanos(-1);
    assert_eq!((time.seconds(), time.subsecond_nanos()), (-1, 999_999_999));
    assert_eq!(Time::from_parts(time.seconds(), time.subsecond_nanos()), time);
    for nanos in [0, 1, -1_000_000_000, 1_700_000_000_123_456_789, i64::MIN + 1_000_000_000, i64::MAX] {
        let time = Time::from_nanos(nanos);
        assert_eq!(Time::from_parts(time.seconds(), time.subsecond_nanos()), time);
    }
}

#[test]
fn times_saturate_at_the_ends_of_their_range() {
    let (first, last) = (Time::from_nanos(i64::MIN), Time::from_nanos(i64::MAX));
    assert_eq!(Time::from_parts(i64::MAX, 5), last);
    assert_eq!(Time::from_parts(i64::MIN, 0), first);
    assert_eq!(last.next(), last);
    assert_eq!(last.plus(Duration::from_secs(1)), last);
    assert_eq!(Time::EPOCH.plus(Duration::MAX), last);
    assert_eq!(first.since(last), Duration::ZERO);
    assert!(last.since(first) >= Duration::from_nanos(1 << 62));
    assert_eq!(Time::from_nanos(9).since(Time::from_nanos(4)), Duration::from_nanos(5));
}
