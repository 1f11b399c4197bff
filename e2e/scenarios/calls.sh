#!/bin/sh
# calls.sh NAME VERSION COUNT APPENDS MEBIBYTES [kernel]: works with files, and writes the calls that each phase made to
# $OUT/NAME: lines of a phase, a key and a number. Keys are operations as /proc/self/mountstats names them, `times`, how
# often the phase did its work, and `milliseconds`. With "kernel", the guest serves itself by the kernel's server.
. "$(dirname "$0")/lib.sh"
NAME=$1 VERSION=$2 COUNT=$3 APPENDS=$4 MEBIBYTES=$5
BYTES=4096
# So that no attribute is asked for again because the machine was slow.
TRUST=actimeo=3600
[ "${6:-}" != kernel ] || . "$here/../peer/kernel"

work() { perl "$here/work.pl" "$@"; }

# counts: prints how often each operation was called so far.
counts() { awk '$1 == "per-op" { of = 1; next } of && $2 > 0 { sub(":", "", $1); print $1, $2 }' /proc/self/mountstats; }

# phase PHASE TIMES COMMAND...: runs COMMAND, and reports what it called.
phase() {
	phase=$1 times=$2
	shift 2
	counts >/run/tmp/before
	begun=$(date +%s%N)
	"$@" || fail "$NAME: $phase"
	ended=$(date +%s%N)
	counts >/run/tmp/after
	{
		echo "$phase times $times"
		echo "$phase milliseconds $(((ended - begun) / 1000000))"
		awk -v phase="$phase" 'FILENAME ~ /before/ { before[$1] = $2; next }
			$2 > before[$1] { print phase, $1, $2 - before[$1] }' /run/tmp/before /run/tmp/after
	} >>"$OUT/$NAME.unfinished"
}

# read_and_remove: reads each file four times more, and removes it.
read_and_remove() {
	for again in 2 3 4 5; do work read "$1" "$COUNT" $BYTES || return 1; done
	work remove "$1" "$COUNT"
}

: >"$OUT/$NAME.unfinished"
attach /mnt/a $TRUST
mkdir /mnt/a/once /mnt/a/often /mnt/a/alone
phase make "$COUNT" work make /mnt/a/once "$COUNT" $BYTES
work make /mnt/a/often "$COUNT" $BYTES
reattach /mnt/a $TRUST
phase list 1 ls -l /mnt/a/often >/run/tmp/listed
reattach /mnt/a $TRUST
phase read "$COUNT" work read /mnt/a/once "$COUNT" $BYTES
phase remove "$COUNT" work remove /mnt/a/once "$COUNT"
reattach /mnt/a $TRUST
phase rewrite "$COUNT" work rewrite /mnt/a/often "$COUNT" $BYTES
reattach /mnt/a $TRUST
work read /mnt/a/often "$COUNT" $BYTES
phase read-often "$COUNT" read_and_remove /mnt/a/often
phase append "$APPENDS" work append /mnt/a/alone "$APPENDS" 100
work make /mnt/a/alone 1 $BYTES
[ "$VERSION" = 3 ] || phase lock "$APPENDS" work lock /mnt/a/alone "$APPENDS"
phase write "$MEBIBYTES" dd if=/dev/zero of=/mnt/a/alone/large bs=1M count="$MEBIBYTES" conv=fsync status=none
reattach /mnt/a $TRUST
phase read-large "$MEBIBYTES" dd if=/mnt/a/alone/large of=/dev/null bs=1M status=none
rm -r /mnt/a/once /mnt/a/often /mnt/a/alone
detach /mnt/a
mv "$OUT/$NAME.unfinished" "$OUT/$NAME"
mark "$NAME: done"
