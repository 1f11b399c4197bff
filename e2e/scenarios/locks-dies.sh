#!/bin/sh
# locks-dies.sh hold|return: lock a file and wait to be killed; or come back
# after that, by which the server knows that what was held is free.
. "$(dirname "$0")/lib.sh"
attach_with_locks /mnt/a
cd /mnt/a
cat >/run/tmp/locked.pl <<'END'
use Fcntl qw(:DEFAULT SEEK_SET);
my ($file, $seconds, $mark) = @ARGV;
sysopen(my $open, $file, O_RDWR | O_CREAT) or die "open $file: $!\n";
my $lock = pack('s s x4 q q i x4', F_WRLCK, SEEK_SET, 0, 0, 0);
fcntl($open, F_SETLK, $lock) or exit 1;
open(my $made, '>', $mark);
close($made);
sleep $seconds;
END
if [ "$1" = hold ]; then
	perl /run/tmp/locked.pl mortal 600 /run/tmp/held &
	until [ -e /run/tmp/held ]; do sleep 0.1; done
	# What the status monitor has on disk when the power fails.
	cp -a /run/nfs/. "$OUT/nfs-$GUEST"
	: >"$OUT/mortal-held"
	wait
	fail "nobody killed this guest"
fi
perl /run/tmp/locked.pl other 0 "$OUT/mortal-back" || fail "a free file is not locked"
perl /run/tmp/locked.pl mortal 0 "$OUT/mortal-again" || fail "what a dead guest held is not free"
