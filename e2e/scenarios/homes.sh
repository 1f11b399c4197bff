#!/bin/sh
# homes.sh admin|first|second: follows docs/homes.md, whose blocks the host has
# put into $OUT/homes: makes the homes, or uses them as one of two clients.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/as-root.sh"
blocks=$OUT/homes
# The root file system is read-only, so a copy of /etc is changed.
mkdir /run/etc
cp -a /etc/. /run/etc
mount --bind /run/etc /etc

if [ "$1" = admin ]; then
	. "$blocks/homes"
	mark "the homes are made"
	exit 0
fi

# denied COMMAND...: the command must fail for lack of permission.
denied() {
	! "$@" 2>/run/tmp/denied || fail "$* succeeds"
	grep -q "Permission denied" /run/tmp/denied || fail "$*: $(cat /run/tmp/denied)"
}

. "$blocks/users"
cat "$blocks/fstab-$VERSION" >>/etc/fstab
. "$blocks/mount"
grep -q " /home nfs.*[ ,]vers=$VERSION," /proc/mounts || fail "not NFSv$VERSION: $(grep /home /proc/mounts)"
[ "$(ls /home)" = "ann
ben" ] || fail "/home lists $(ls /home)"
meet mounted
[ "$1" = second ] || . "$blocks/first-client"
meet written
if [ "$1" = second ]; then
	. "$blocks/second-client" >/run/tmp/greeting
	[ "$(cat /run/tmp/greeting)" = hello ] || fail "the second client reads $(cat /run/tmp/greeting)"
fi
meet appended
[ "$(sudo -u ben cat /home/ben/greeting)" = "hello
again" ] || fail "the home of ben does not hold what both clients wrote"
must_fail() (. "$blocks/must-fail")
denied must_fail
# Root is squashed on both clients.
cd /home
denied mkdir made-by-root
cd /
denied ls /home/ann
meet refused
mark "done"
