#!/bin/sh
# locks.sh VERSION: this guest contends for locks with its peer, mounted with
# a VERSION of NFS of its own. Guest 1 holds, guest 2 waits; then the server is
# killed while both hold. They meet in files of $OUT.
. "$(dirname "$0")/lib.sh"
VERSION=$1
attach_with_locks /mnt/a
peer=$((3 - GUEST))

# meet NAME: go on when both have come here.
meet() {
	: >"$OUT/met-$1-$GUEST"
	await "$OUT/met-$1-$peer"
}

await() {
	tries=0
	until [ -e "$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 900 ] || fail "$1 never came"
		sleep 0.1
	done
}

# locked FILE TYPE START LENGTH HOW [COMMAND]: whether the lock is there; COMMAND runs while it is held.
cat >/run/tmp/locked.pl <<'END'
use Fcntl qw(:DEFAULT SEEK_SET);
my ($file, $type, $start, $length, $how, $command) = @ARGV;
sysopen(my $open, $file, O_RDWR | O_CREAT) or die "open $file: $!\n";
my $lock = pack('s s x4 q q i x4', $type eq 'w' ? F_WRLCK : F_RDLCK, SEEK_SET, $start, $length, 0);
fcntl($open, $how eq 'wait' ? F_SETLKW : F_SETLK, $lock) or exit 1;
exit(defined $command && system('/bin/sh', '-c', $command) ? 2 : 0);
END
locked() { perl /run/tmp/locked.pl "$@"; }

cd /mnt/a
: >>file
meet start
if [ "$GUEST" = 1 ]; then
	locked file w 0 10 try ": >$OUT/held; sleep 3; : >$OUT/freed; sleep 0.2" || fail "a free range is not locked"
else
	await "$OUT/held"
	! locked file w 5 1 try || fail "two have a range"
	! locked file r 5 1 try || fail "shared beside exclusive"
	locked file w 10 5 try || fail "another range is not free"
	locked file w 0 0 wait "[ -e $OUT/freed ]" || fail "granted too early, or never"
fi
meet contended

# Each adds to a counter under the lock, by turns and without caching.
for number in $(seq 30); do
	locked file w 100 1 wait 'read count <counter 2>/dev/null || count=0; echo $((count + 1)) >counter' || fail "adding"
done
meet added
[ "$(cat counter)" = 60 ] || fail "the counter is $(cat counter), not 60"
meet counted

# The server is killed while one holds and the other waits.
if [ "$GUEST" = 1 ]; then
	locked file w 200 10 try ": >$OUT/kill-me; until [ -e $OUT/killed ]; do sleep 0.1; done; sleep 3; : >$OUT/freed-2; sleep 0.2" ||
		fail "a free range is not locked"
else
	await "$OUT/kill-me"
	locked file w 205 1 wait "[ -e $OUT/freed-2 ]" || fail "the server lost a lock, or who waited"
fi
meet killed
cd /
detach /mnt/a
mark "done"
