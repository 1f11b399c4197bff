#!/bin/sh
# delegations.sh: guest 1 is given files to keep to itself, and guest 2 minds,
# by a mount of the version that is tried and by one of NFSv3. Guest 1 is cut
# off, comes back, and is killed in the end. The disk of 1 GiB is the server's.
. "$(dirname "$0")/lib.sh"
attach /mnt/a
[ "$GUEST" = 1 ] || (VERSION=3 && attach_with_locks /mnt/b)
cd /mnt/a
LEASE=$1
# Clients of NFSv4.0 are given none to write.
to_write=$([ "$VERSION" = 4.0 ] || echo yes)

# count granted|recalled|revoked: how many delegations so far.
count() { counted "nfs4_delegations_$1"; }
# more granted|recalled|revoked THAN: since then.
more() { [ "$(count "$1")" -gt "$2" ] || fail "none was $1 (step $step)"; }
# given FILE: opens it as file 3, with a delegation.
given() {
	granted=$(count granted)
	if [ -n "$to_write" ]; then exec 3<>"$1"; else exec 3<"$1"; fi
	more granted "$granted"
}
free() { df --output=avail -k /mnt/a | tail -1 | tr -d ' '; }
# in_time COMMAND...: what waits for a silent guest waits for its lease, and not for long beyond.
in_time() {
	begun=$(date +%s)
	"$@" || fail "$step: $*"
	took=$(($(date +%s) - begun))
	mark "$step: waited for $took s"
	[ $took -le $((LEASE + 15)) ] || fail "$step: a silent guest was waited for $took s"
}

# Only a recall makes the client write what it has in memory.
echo 0 >/proc/sys/vm/dirty_writeback_centisecs

for way in a b; do
	step=read-$way
	if [ "$GUEST" = 1 ]; then
		echo first >$step
		granted=$(count granted)
		exec 3<$step
		more granted "$granted"
		[ "$(cat $step)" = first ] || fail "$step: not what was written"
	fi
	meet $step
	if [ "$GUEST" = 2 ]; then
		recalled=$(count recalled)
		echo second >/mnt/$way/$step
		more recalled "$recalled"
	fi
	meet $step-changed
	[ "$(cat $step)" = second ] || fail "$step: not what guest 2 has written but $(cat $step)"
	exec 3<&-

	[ -n "$to_write" ] || continue
	step=write-$way
	if [ "$GUEST" = 1 ]; then
		echo original >$step
		given $step
		echo changed, and not closed >&3
	fi
	meet $step
	if [ "$GUEST" = 2 ]; then
		recalled=$(count recalled)
		[ "$(cat /mnt/$way/$step)" = 'changed, and not closed' ] || fail "$step: guest 2 sees $(cat /mnt/$way/$step)"
		more recalled "$recalled"
	fi
	meet $step-read
	exec 3<&-

	# A lock that the client had by itself becomes the server's.
	step=lock-$way
	if [ "$GUEST" = 1 ]; then
		echo >$step
		given $step
		before=$(awk '$1 == "LOCK:" { print $2 }' /proc/self/mountstats)
		locked $step w 0 10 try ": >$OUT/$step-held; until [ -e $OUT/$step-denied ]; do sleep 0.1; done
			sleep 2; : >$OUT/$step-freed; sleep 0.2" &
		await $step-held
		[ "$(awk '$1 == "LOCK:" { print $2 }' /proc/self/mountstats)" = "$before" ] || fail "$step: a lock was asked for"
		: >"$OUT/$step-begin"
		wait $! || fail "$step: not locked"
	else
		await $step-begin
		recalled=$(count recalled)
		denied /mnt/$way/$step w 5 1 || fail "$step: two have a range"
		more recalled "$recalled"
		: >"$OUT/$step-denied"
		locked /mnt/$way/$step w 0 0 wait "[ -e $OUT/$step-freed ]" || fail "$step: granted too early, or never"
	fi
	meet $step
	exec 3<&-
done
mark "recalled"

# Open files that lose their names are what they were until they are closed, and then cost nothing.
for way in a b; do
	step=open-$way
	if [ "$GUEST" = 1 ]; then
		head -c 16777216 /dev/urandom >$step-removed
		head -c 16777216 /dev/urandom >$step-replaced
		echo other >$step-other
		sync
		free >/run/tmp/free
		for file in removed replaced; do
			perl "$here/kept.pl" $step-$file "$OUT/$step-$file" "$OUT/$step-gone" &
			await $step-$file
			echo $! >/run/tmp/$file
		done
		: >"$OUT/$step-begin"
		for file in removed replaced; do
			wait "$(cat /run/tmp/$file)" || fail "$step: an open file was not kept when it was $file"
		done
		[ "$(cat $step-replaced)" = other ] || fail "$step: the name stands for $(head -c 100 $step-replaced)"
		tries=0
		until [ "$(free)" -gt $(($(cat /run/tmp/free) + 30000)) ]; do
			tries=$((tries + 1))
			[ $tries -lt 60 ] || fail "$step: space does not come back: $(cat /run/tmp/free) KiB before, $(free) now"
			sleep 1
		done
	else
		await $step-begin
		rm /mnt/$way/$step-removed || fail "$step: removing"
		mv /mnt/$way/$step-other /mnt/$way/$step-replaced || fail "$step: renaming"
		[ ! -e /mnt/$way/$step-removed ] || fail "$step: what was removed has a name"
		[ "$(cat /mnt/$way/$step-replaced)" = other ] || fail "$step: what was replaced has its name"
		: >"$OUT/$step-gone"
	fi
	meet $step
done
mark "kept without a name"

# A guest that is cut off does not stop the other one, and finds its way when it is back.
step=cut
if [ "$GUEST" = 1 ]; then
	echo mine >$step
	given $step
	: >"$OUT/cut-me"
	await healed
	# A client that has a file open for writing goes by what it has in memory.
	exec 3<&-
	tries=0
	until [ "$(cat $step)" = theirs ]; do
		tries=$((tries + 1))
		[ $tries -lt 60 ] || fail "$step: guest 1 still sees $(cat $step)"
		sleep 1
	done
	echo mine again >$step || fail "$step: guest 1 writes no more"
else
	await was-cut
	revoked=$(count revoked)
	in_time sh -c "echo theirs >$step"
	more revoked "$revoked"
	: >"$OUT/heal-me"
fi
meet $step
[ "$(cat $step)" = 'mine again' ] || fail "$step: not what guest 1 has written but $(cat $step)"
mark "healed"

# A guest that dies with a delegation and with a lock.
step=killed
if [ "$GUEST" = 1 ]; then
	echo mine >$step
	given $step
	locked $step-lock w 0 0 try ": >$OUT/kill-me; sleep 600" || fail "$step: not locked"
	fail "nobody killed this guest"
fi
await was-killed
revoked=$(count revoked)
denied $step-lock w 0 0 || fail "$step: a lock is gone with the guest at once, and not after its lease"
in_time sh -c "echo theirs >$step"
more revoked "$revoked"
in_time locked $step-lock w 0 0 wait
[ "$(cat $step)" = theirs ] || fail "$step: not what guest 2 has written but $(cat $step)"
cd /
detach /mnt/a
detach /mnt/b
mark "done"
