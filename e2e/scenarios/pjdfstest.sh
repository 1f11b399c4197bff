#!/bin/sh
# pjdfstest.sh PROGRAM: runs the whole suite as root and writes its report to
# $OUT. The host compares it with e2e/pjdfstest.expected.
. "$(dirname "$0")/lib.sh"
# The suite uses two users besides root; /etc is read-only, so copies are mounted.
cp /etc/passwd /etc/group /run/tmp
grep -q '^tests:' /etc/passwd || {
	echo 'tests:x:4321:4321::/:/usr/sbin/nologin' >>/run/tmp/passwd
	echo 'tests:x:4321:' >>/run/tmp/group
}
mount --bind /run/tmp/passwd /etc/passwd
mount --bind /run/tmp/group /etc/group
cat >/run/tmp/configuration.toml <<END
[features]
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["tests", "tests"]]
END
attach /mnt/a noac
mkdir /mnt/a/suite
chmod 755 /mnt/a/suite
cd /run/tmp
"$1" -c /run/tmp/configuration.toml -p /mnt/a/suite -s /run/tmp >"$OUT/report" 2>&1 || true
mark "the suite has run"
tail -1 "$OUT/report"
