#!/bin/sh
# tenants.sh: two tenants share a pool, each with a volume, a quota tree in it and a tier. Tenant 1 works quietly, first alone and then
# beside tenant 2, who exceeds whatever he is given.
. "$(dirname "$0")/lib.sh"
EXPORT=/tenant-$GUEST
tenant=4000
as_tenant() { setpriv --reuid $tenant --regid $tenant --clear-groups "$@"; }

# refused MESSAGE COMMAND...: the command fails, with this message.
refused() {
	wanted=$1
	shift
	if as_tenant "$@" 2>/run/tmp/error; then fail "$* succeeds"; fi
	grep -q "$wanted" /run/tmp/error || fail "$*: $(cat /run/tmp/error)"
}

attach /mnt/a
cd /mnt/a
mkdir project other
chown $tenant:$tenant project other
: >"$OUT/made-$GUEST"
await limited

# The tree's limit is what df shows: 48 MiB of a larger volume.
size=$(df --output=size -k project | tail -1 | tr -d ' ')
[ "$size" = 49152 ] || fail "df shows $size KiB in the tree"
[ "$(df --output=size -k . | tail -1 | tr -d ' ')" -gt 49152 ] || fail "df shows the tree's size outside"
cd project

if [ "$GUEST" = 1 ]; then
	as_tenant perl "$here/quiet.pl" alone 8 >"$OUT/alone" || fail "alone: $(cat "$OUT/alone")"
	: >"$OUT/start"
	await wild
	as_tenant perl "$here/quiet.pl" beside 12 >"$OUT/beside" || fail "beside the other: $(cat "$OUT/beside")"
	: >"$OUT/stop"
	mark "alone: $(cat "$OUT/alone"); beside: $(cat "$OUT/beside")"
	exit 0
fi

await start
# Many writers at once, far above the tier: each beyond the tree's limit.
for writer in 1 2 3 4 5 6 7 8; do
	as_tenant sh -c "while [ ! -e $OUT/stop ]; do dd if=/dev/zero of=flood-$writer bs=1M count=16 conv=fsync; done" \
		>/dev/null 2>&1 &
done
# A storm of names, some of them beyond the limit on inodes.
as_tenant sh -c "number=0; while [ ! -e $OUT/stop ]; do number=\$(((number + 1) % 400)); : >name-\$number; done" \
	>/dev/null 2>&1 &
sleep 1
: >"$OUT/wild"
await stop
wait
# What he may have is his, and not a byte or a name more.
rm -f flood-* name-*
as_tenant head -c 40000000 /dev/zero >full || fail "40 MB of 48 MiB do not fit"
sync full
refused "quota exceeded" sh -c 'head -c 20000000 /dev/zero >more && sync more'
rm -f full more
refused "quota exceeded" sh -c 'for number in $(seq 400); do : >"many-$number" || exit 1; done'
[ "$(find . | wc -l)" = 200 ] || fail "$(find . | wc -l) of 200 objects"
refused "cross-device" sh -c 'ln many-1 ../other/one'
mark "done"
