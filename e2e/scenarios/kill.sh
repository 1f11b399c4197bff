#!/bin/sh
# kill.sh WORKER SEED [VERSION EXPORT]: works while the server is killed
# repeatedly, until $OUT/stop exists; then compares with what was acknowledged.
. "$(dirname "$0")/lib.sh"
VERSION=${3:-$VERSION} EXPORT=${4:-$EXPORT}
attach /mnt/a nconnect=8
mkdir "/mnt/a/guest$GUEST"
"$1" guest-work run "/mnt/a/guest$GUEST" "$OUT" "$2" || fail "the work failed"
reattach /mnt/a
"$1" guest-work verify "/mnt/a/guest$GUEST" "$OUT" || fail "acknowledged outcomes were lost"
