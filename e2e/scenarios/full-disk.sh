#!/bin/sh
# full-disk.sh: fills the server's disk until ENOSPC, removes, and continues.
. "$(dirname "$0")/lib.sh"
attach /mnt/a nconnect=4
cd /mnt/a
free() { df --output=avail -k /mnt/a | tail -1 | tr -d ' '; }
mkdir small
for number in $(seq 200); do head -c 5000 /dev/urandom >small/$number; done
sync
sha256sum small/* >/run/tmp/sums
before=$(free)
mark "$before KiB free"
full='' number=0
while [ -z "$full" ]; do
	number=$((number + 1))
	[ $number -lt 400 ] || fail "400 files of 16 MiB fit on a disk of 1 GiB"
	if dd if=/dev/urandom of=big.$number bs=1M count=16 conv=fsync 2>/run/tmp/error; then
		sha256sum big.$number >>/run/tmp/sums
	else
		grep -q 'No space left on device' /run/tmp/error || fail "expected ENOSPC: $(cat /run/tmp/error)"
		full=1
	fi
done
mark "full after $number files of 16 MiB"
# Creating may fail now but must not hang; removing must work.
timeout 120 sh -c 'for i in $(seq 50); do : >name.$i; done' 2>/dev/null || true
rm big.$number || fail "cannot remove on a full disk"
rm -f name.*
echo 3 >/proc/sys/vm/drop_caches
sha256sum --quiet -c /run/tmp/sums || fail "synced files differ on the full disk"
mark "all synced files are intact"
full=$(free)
for i in $(seq 1 $((number - 1))); do rm big.$i || fail "cannot remove big.$i"; done
tries=0
until [ "$(free)" -gt $((before - 65536)) ]; do
	tries=$((tries + 1))
	[ $tries -lt 120 ] || fail "space was not freed: $before KiB before, $full when full, $(free) now"
	sleep 1
done
mark "$(free) KiB free again after $tries s"
dd if=/dev/urandom of=again bs=1M count=32 conv=fsync 2>/dev/null || fail "cannot write after space came back"
grep small/ /run/tmp/sums >/run/tmp/small
cd /
reattach /mnt/a
cd /mnt/a
sha256sum --quiet -c /run/tmp/small || fail "small files differ after the remount"
