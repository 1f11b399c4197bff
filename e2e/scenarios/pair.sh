#!/bin/sh
# pair.sh VERSION COUNT SERVER [EXPORT]: works while the machine that serves the group changes, until $OUT/stop exists. It is one of COUNT
# guests; each mounts with its own VERSION of NFS, holds a lock all the time, and takes turns with the others under another one.
. "$(dirname "$0")/lib.sh"
VERSION=$1 COUNT=$2 SERVER=$3 EXPORT=${4:-$EXPORT}
case $SERVER in *:*)
	modprobe ipv6 || fail "the guest's kernel has no IPv6"
	ip -6 addr add "fd77::$((GUEST + 10))/64" dev vec0 nodad
	;;
esac
attach_with_locks /mnt/a
cd /mnt/a
: >>"held-$GUEST"
locked "held-$GUEST" w 0 10 try ": >$OUT/held-$GUEST; until [ -e $OUT/unlock ]; do sleep 0.1; done" &
held=$!
await "held-$GUEST"
perl "$here/pulse.pl" /mnt/a "$OUT" "guest$GUEST" &
pulse=$!
: >"$OUT/ready-$GUEST"
turns=0
until [ -e "$OUT/stop" ]; do
	perl "$here/turns.pl" turns 3 || fail "turns"
	turns=$((turns + 3))
done
wait $pulse || fail "an operation was lost, repeated or refused"
echo $turns >"$OUT/turns-$GUEST"
for number in $(seq "$COUNT"); do await "turns-$number"; done
[ "$(od -An -v -tu4 -w4 turns | sort -u | tr -d ' ')" = "$(cat "$OUT"/turns-* | awk '{ sum += $1 } END { print sum }')" ] ||
	fail "increments under a lock were lost"
denied "held-$((GUEST % COUNT + 1))" w 5 1 || fail "a lock was lost"
: >"$OUT/checked-$GUEST"
for number in $(seq "$COUNT"); do await "checked-$number"; done
: >"$OUT/unlock"
wait $held || fail "the lock was not released"
cd /
detach /mnt/a
mark "done"
