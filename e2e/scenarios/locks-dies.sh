#!/bin/sh
# locks-dies.sh hold|return: lock a file and wait to be killed; or come back
# after that, by which the server knows that what was held is free.
. "$(dirname "$0")/lib.sh"
attach_with_locks /mnt/a
cd /mnt/a
if [ "$1" = hold ]; then
	locked mortal w 0 0 try ": >/run/tmp/held; sleep 600" &
	until [ -e /run/tmp/held ]; do sleep 0.1; done
	# What the status monitor has on disk when the power fails.
	cp -a /run/nfs/. "$OUT/nfs-$GUEST"
	: >"$OUT/mortal-held"
	wait
	fail "nobody killed this guest"
fi
locked other w 0 0 try || fail "a free file is not locked"
locked mortal w 0 0 try || fail "what a dead guest held is not free"
