#!/bin/sh
# kill.sh WORKER SEED: work while the server is killed again and again, until
# $OUT/stop is there; then compare with what was acknowledged.
. "$(dirname "$0")/lib.sh"
attach /mnt/a nconnect=8
mkdir "/mnt/a/guest$GUEST"
"$1" guest-work run "/mnt/a/guest$GUEST" "$OUT" "$2" || fail "the work was interrupted"
reattach /mnt/a
"$1" guest-work verify "/mnt/a/guest$GUEST" "$OUT" || fail "acknowledged facts are gone"
