#!/bin/sh
# locks.sh VERSION: this guest contends for locks with its peer, mounted with
# a VERSION of NFS of its own. Guest 1 holds, guest 2 waits; then the server is
# killed while both hold. They meet in files of $OUT.
. "$(dirname "$0")/lib.sh"
VERSION=$1
attach_with_locks /mnt/a
cd /mnt/a
: >>file
meet start
if [ "$GUEST" = 1 ]; then
	locked file w 0 10 try ": >$OUT/held; sleep 3; : >$OUT/freed; sleep 0.2" || fail "a free range is not locked"
else
	await held
	denied file w 5 1 || fail "two have a range"
	denied file r 5 1 || fail "shared beside exclusive"
	locked file w 10 5 try || fail "another range is not free"
	locked file w 0 0 wait "[ -e $OUT/freed ]" || fail "granted too early, or never"
fi
meet contended

# Two may share a range, and nobody may write it then.
if [ "$GUEST" = 1 ]; then
	locked file r 50 10 try ": >$OUT/shared; until [ -e $OUT/shared-too ]; do sleep 0.1; done" || fail "not shared"
else
	await shared
	locked file r 50 10 try ":" || fail "two cannot share a range"
	denied file w 55 1 || fail "exclusive beside shared"
	: >"$OUT/shared-too"
fi
meet shared

# flock(2), which the client makes a lock of the whole file; 9 is "somebody else has it".
if [ "$GUEST" = 1 ]; then
	flock -x flocked -c ": >$OUT/flocked; sleep 3; : >$OUT/unflocked; sleep 0.2" || fail "a free file is not locked"
else
	await flocked
	status=0
	flock -x -n -E 9 flocked true || status=$?
	[ $status = 9 ] || fail "two have a file, status $status"
	flock -x flocked [ -e "$OUT/unflocked" ] || fail "a file is granted too early, or never"
fi
meet flocked

# Each adds to a counter under the lock, by turns and without caching.
for number in $(seq 30); do
	locked file w 100 1 wait 'read count <counter 2>/dev/null || count=0; echo $((count + 1)) >counter' || fail "adding"
done
meet added
[ "$(cat counter)" = 60 ] || fail "the counter is $(cat counter), not 60"
perl "$here/turns.pl" turns 30 || fail "turns"
meet turned
[ "$(od -An -v -tu4 -w4 turns | sort -u | tr -d ' ')" = 60 ] || fail "a file that stayed open lost turns"
meet counted

# The server is killed while one holds and the other waits.
if [ "$GUEST" = 1 ]; then
	locked file w 200 10 try ": >$OUT/kill-me; until [ -e $OUT/killed ]; do sleep 0.1; done; sleep 3; : >$OUT/freed-2; sleep 0.2" ||
		fail "a free range is not locked"
else
	await kill-me
	locked file w 205 1 wait "[ -e $OUT/freed-2 ]" || fail "the server lost a lock, or who waited"
fi
meet killed
cd /
detach /mnt/a
mark "done"
