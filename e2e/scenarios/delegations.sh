#!/bin/sh
# delegations.sh LEASE: guest 1 gets delegations, and guest 2 causes recalls
# through a mount of the version under test and through one of NFSv3. Guest 1
# is cut off, reconnected, and finally killed. The server has a disk of 1 GiB.
. "$(dirname "$0")/lib.sh"
attach /mnt/a
[ "$GUEST" = 1 ] || (VERSION=3 && attach_with_locks /mnt/b)
cd /mnt/a
LEASE=$1
# Clients of NFSv4.0 get no write delegations.
to_write=$([ "$VERSION" = 4.0 ] || echo yes)

# count granted|recalled|revoked: the number of such delegations so far.
count() { counted "nfs4_delegations_$1"; }
# more granted|recalled|revoked COUNT: fails unless there are more than COUNT.
more() { [ "$(count "$1")" -gt "$2" ] || fail "$step: no delegation was $1"; }
# given FILE: opens FILE as descriptor 3, with a delegation: at once to read and to write, otherwise when it is opened again. The server
# tests first whether a client of NFSv4.0 that was cut off can be called, so it is opened until it is delegated, for 15 s at most.
given() {
	granted=$(count granted)
	if [ -n "$to_write" ]; then
		exec 3<>"$1"
	else
		tries=0
		cat "$1" >/run/tmp/first
		exec 3<"$1"
		until [ "$(count granted)" -gt "$granted" ] || [ $tries = 30 ]; do
			tries=$((tries + 1))
			sleep 0.5
			exec 3<&-
			exec 3<"$1"
		done
	fi
	more granted "$granted"
}
free() { df --output=avail -k /mnt/a | tail -1 | tr -d ' '; }
# in_time COMMAND...: fails unless waiting for a silent guest ends soon after its lease.
in_time() {
	begun=$(date +%s)
	"$@" || fail "$step: $*"
	took=$(($(date +%s) - begun))
	mark "$step: waited $took s"
	[ $took -le $((LEASE + 15)) ] || fail "$step: waited $took s for a silent guest"
}

# Makes the client write back its dirty pages only on a recall.
echo 0 >/proc/sys/vm/dirty_writeback_centisecs

for way in a b; do
	step=read-$way
	if [ "$GUEST" = 1 ]; then
		echo first >$step
		granted=$(count granted)
		cat $step >/run/tmp/first
		[ "$(count granted)" = "$granted" ] || fail "$step: the first open was delegated"
		exec 3<$step
		more granted "$granted"
		[ "$(cat $step)" = first ] || fail "$step: wrong content"
	fi
	meet $step
	if [ "$GUEST" = 2 ]; then
		recalled=$(count recalled)
		echo second >/mnt/$way/$step
		more recalled "$recalled"
	fi
	meet $step-changed
	[ "$(cat $step)" = second ] || fail "$step: guest 1 reads '$(cat $step)' instead of guest 2's data"
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

	# A lock held under a delegation is sent to the server on recall.
	step=lock-$way
	if [ "$GUEST" = 1 ]; then
		echo >$step
		given $step
		before=$(awk '$1 == "LOCK:" { print $2 }' /proc/self/mountstats)
		locked $step w 0 10 try ": >$OUT/$step-held; until [ -e $OUT/$step-denied ]; do sleep 0.1; done
			sleep 2; : >$OUT/$step-freed; sleep 0.2" &
		await $step-held
		[ "$(awk '$1 == "LOCK:" { print $2 }' /proc/self/mountstats)" = "$before" ] || fail "$step: the client sent a LOCK"
		: >"$OUT/$step-begin"
		wait $! || fail "$step: cannot lock"
	else
		await $step-begin
		recalled=$(count recalled)
		denied /mnt/$way/$step w 5 1 || fail "$step: two clients have locked a range"
		more recalled "$recalled"
		: >"$OUT/$step-denied"
		locked /mnt/$way/$step w 0 0 wait "[ -e $OUT/$step-freed ]" || fail "$step: granted too early or never"
	fi
	meet $step
	exec 3<&-
done
mark "recalled"

# Open files that lose their names keep their data until they are closed, then free their space.
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
			wait "$(cat /run/tmp/$file)" || fail "$step: an open file was damaged when it was $file"
		done
		[ "$(cat $step-replaced)" = other ] || fail "$step: the name refers to '$(head -c 100 $step-replaced)'"
		tries=0
		until [ "$(free)" -gt $(($(cat /run/tmp/free) + 30000)) ]; do
			tries=$((tries + 1))
			[ $tries -lt 60 ] || fail "$step: space was not freed: $(cat /run/tmp/free) KiB before, $(free) now"
			sleep 1
		done
	else
		await $step-begin
		rm /mnt/$way/$step-removed || fail "$step: cannot remove"
		mv /mnt/$way/$step-other /mnt/$way/$step-replaced || fail "$step: cannot rename"
		[ ! -e /mnt/$way/$step-removed ] || fail "$step: the removed name still exists"
		[ "$(cat /mnt/$way/$step-replaced)" = other ] || fail "$step: the name still refers to the replaced file"
		: >"$OUT/$step-gone"
	fi
	meet $step
done
mark "open files without a name"

# A guest that is cut off does not block the other one, and recovers when it is reconnected.
step=cut
if [ "$GUEST" = 1 ]; then
	echo mine >$step
	given $step
	: >"$OUT/cut-me"
	await healed
	# The client trusts its cache for a file that is open for writing.
	exec 3<&-
	tries=0
	until [ "$(cat $step)" = theirs ]; do
		tries=$((tries + 1))
		[ $tries -lt 60 ] || fail "$step: guest 1 still reads '$(cat $step)'"
		sleep 1
	done
	echo mine again >$step || fail "$step: guest 1 cannot write"
else
	await was-cut
	revoked=$(count revoked)
	in_time sh -c "echo theirs >$step"
	more revoked "$revoked"
	: >"$OUT/heal-me"
fi
meet $step
[ "$(cat $step)" = 'mine again' ] || fail "$step: '$(cat $step)' instead of guest 1's data"
mark "healed"

# A guest dies while it holds a delegation and a lock.
step=killed
if [ "$GUEST" = 1 ]; then
	echo mine >$step
	given $step
	locked $step-lock w 0 0 try ": >$OUT/kill-me; sleep 600" || fail "$step: cannot lock"
	fail "this guest was not killed"
fi
await was-killed
revoked=$(count revoked)
denied $step-lock w 0 0 || fail "$step: the dead guest's lock was released before its lease expired"
in_time sh -c "echo theirs >$step"
more revoked "$revoked"
in_time locked $step-lock w 0 0 wait
[ "$(cat $step)" = theirs ] || fail "$step: '$(cat $step)' instead of guest 2's data"
cd /
detach /mnt/a
detach /mnt/b
mark "done"
