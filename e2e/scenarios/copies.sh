#!/bin/sh
# copies.sh LEASE: COPY of a file of so many pieces that the server goes on with
# it after its reply, and calls the client when it is done; then the same with
# the server killed in the midst of it.
. "$(dirname "$0")/lib.sh"
attach /mnt/a
cd /mnt/a
LEASE=$1
PIECES=16384
LENGTH=$((PIECES * 8192))

used() { du -k "$1" | cut -f1; }
call() { perl "$here/call.pl" "$@"; }
# sum FILE: of what the server has, not of what is in memory here.
sum() {
	sync "$1"
	echo 3 >/proc/sys/vm/drop_caches
	sha256sum <"$1"
}
# same FILE: it is a copy, and has its data where the original has.
same() {
	[ "$(sum "$1")" = "$original" ] || fail "$1 is not what was copied"
	[ "$(used "$1")" = "$room" ] || fail "$1 uses $(used "$1") KiB, and the original $room"
}

call scatter scattered $((PIECES - 1)) || fail "writing pieces"
truncate -s $LENGTH scattered
original=$(sum scattered)
room=$(used scattered)
[ "$room" -lt $((PIECES * 8)) ] || fail "there are no holes in $room KiB"
mark "a file of $PIECES pieces"

call copy scattered 0 copy1 0 $LENGTH || fail "copy_file_range"
[ "$(counted nfs4_copies_begun)" -gt 0 ] || fail "the server has answered the copy at once"
[ "$(counted nfs4_copies)" = 0 ] || fail "the server goes on copying"
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
	wait "$copier" || fail "copy_file_range over a kill of the server: $(cat /run/tmp/copy$number)"
done
await was-killed
took=$(($(date +%s) - begun))
mark "copied over a kill of the server, in $took s"
for number in $copies; do same copy$number; done
mark "compared"
