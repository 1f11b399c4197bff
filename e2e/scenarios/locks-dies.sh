#!/bin/sh
# locks-dies.sh hold|return: locks a file and waits to be killed; or returns
# after that, which tells the server to release the lock.
. "$(dirname "$0")/lib.sh"
attach_with_locks /mnt/a
cd /mnt/a
if [ "$1" = hold ]; then
	locked dying w 0 0 try ": >/run/tmp/held; sleep 600" &
	until [ -e /run/tmp/held ]; do sleep 0.1; done
	# The status monitor's state at the power failure.
	cp -a /run/nfs/. "$OUT/nfs-$GUEST"
	: >"$OUT/dying-held"
	wait
	fail "this guest was not killed"
fi
locked other w 0 0 try || fail "cannot lock a free file"
locked dying w 0 0 try || fail "the dead guest's lock was not released"
