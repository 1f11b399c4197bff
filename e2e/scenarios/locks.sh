#!/bin/sh
# locks.sh VERSION: contends for locks with the other guest; each mounts with
# its own VERSION of NFS. Guest 1 holds a lock, guest 2 waits; then the server
# is killed meanwhile. The guests synchronize through files in $OUT.
. "$(dirname "$0")/lib.sh"
VERSION=$1
attach_with_locks /mnt/a
cd /mnt/a
: >>file
meet start
if [ "$GUEST" = 1 ]; then
	locked file w 0 10 try ": >$OUT/held; sleep 3; : >$OUT/freed; sleep 0.2" || fail "cannot lock a free range"
else
	await held
	denied file w 5 1 || fail "two guests have locked a range"
	denied file r 5 1 || fail "a shared lock beside an exclusive one"
	locked file w 10 5 try || fail "cannot lock another range"
	locked file w 0 0 wait "[ -e $OUT/freed ]" || fail "granted too early or never"
fi
meet contended

# Shared locks coexist, and exclude exclusive ones.
if [ "$GUEST" = 1 ]; then
	locked file r 50 10 try ": >$OUT/shared; until [ -e $OUT/shared-too ]; do sleep 0.1; done" || fail "cannot get a shared lock"
else
	await shared
	locked file r 50 10 try ":" || fail "two guests cannot share a range"
	denied file w 55 1 || fail "an exclusive lock beside a shared one"
	: >"$OUT/shared-too"
fi
meet shared

# flock(2), which the client turns into a lock on the whole file. Status 9 means a conflict.
if [ "$GUEST" = 1 ]; then
	flock -x flocked -c ": >$OUT/flocked; sleep 3; : >$OUT/unflocked; sleep 0.2" || fail "cannot lock a free file"
else
	await flocked
	status=0
	flock -x -n -E 9 flocked true || status=$?
	[ $status = 9 ] || fail "two guests have locked a file: status $status"
	flock -x flocked [ -e "$OUT/unflocked" ] || fail "a file lock was granted too early or never"
fi
meet flocked

# Both increment a counter under the lock, which invalidates their caches.
for number in $(seq 30); do
	locked file w 100 1 wait 'read count <counter 2>/dev/null || count=0; echo $((count + 1)) >counter' || fail "cannot increment"
done
meet added
[ "$(cat counter)" = 60 ] || fail "the counter is $(cat counter), not 60"
perl "$here/turns.pl" turns 30 || fail "turns"
meet turned
[ "$(od -An -v -tu4 -w4 turns | sort -u | tr -d ' ')" = 60 ] || fail "increments of an open file were lost"
meet counted

# The server is killed while guest 1 holds a lock and guest 2 waits for it.
if [ "$GUEST" = 1 ]; then
	locked file w 200 10 try ": >$OUT/kill-me; until [ -e $OUT/killed ]; do sleep 0.1; done; sleep 3; : >$OUT/freed-2; sleep 0.2" ||
		fail "cannot lock a free range"
else
	await kill-me
	locked file w 205 1 wait "[ -e $OUT/freed-2 ]" || fail "the lock or its waiter was lost with the server"
fi
meet killed
cd /
detach /mnt/a
mark "done"
