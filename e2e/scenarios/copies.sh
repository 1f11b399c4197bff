#!/bin/sh
# copies.sh LEASE: COPY of a file with so many extents that the server copies
# asynchronously and calls the client when it is done; then the same with the
# server killed during the copy.
. "$(dirname "$0")/lib.sh"
attach /mnt/a
cd /mnt/a
LEASE=$1
EXTENTS=16384
LENGTH=$((EXTENTS * 8192))

used() { du -k "$1" | cut -f1; }
call() { perl "$here/call.pl" "$@"; }
# sum FILE: checksum of the server's data, bypassing the client's cache.
sum() {
	sync "$1"
	echo 3 >/proc/sys/vm/drop_caches
	sha256sum <"$1"
}
# same FILE: FILE equals the original and uses as much space.
same() {
	[ "$(sum "$1")" = "$original" ] || fail "$1 differs from the original"
	[ "$(used "$1")" = "$room" ] || fail "$1 uses $(used "$1") KiB, the original $room"
}

call scatter scattered $((EXTENTS - 1)) || fail "cannot write the extents"
truncate -s $LENGTH scattered
original=$(sum scattered)
room=$(used scattered)
[ "$room" -lt $((EXTENTS * 8)) ] || fail "the file has no holes: it uses $room KiB"
mark "a file of $EXTENTS extents"

call copy scattered 0 copy1 0 $LENGTH || fail "copy_file_range"
[ "$(counted nfs4_copies_begun)" -gt 0 ] || fail "the copy was not asynchronous"
[ "$(counted nfs4_copies)" = 0 ] || fail "the server still copies"
same copy1
cp scattered copy2 || fail "cp"
same copy2
mark "copied"

: >"$OUT/kill-me"
begun=$(date +%s)
copies="3 4 5 6"
for number in $copies; do
	call copy scattered 0 copy$number 0 $LENGTH >"/run/tmp/copy$number" 2>&1 &
	eval "copier$number=$!"
done
for number in $copies; do
	eval "copier=\$copier$number"
	wait "$copier" || fail "copy_file_range across a kill of the server: $(cat /run/tmp/copy$number)"
done
await was-killed
took=$(($(date +%s) - begun))
mark "copied across a kill of the server in $took s"
for number in $copies; do same copy$number; done
mark "compared"
