#!/bin/sh
# mount.sh: mounts with default options, and with many connections.
. "$(dirname "$0")/lib.sh"

# connections: the number of connections of the only NFS mount.
connections() { grep -c '^[[:space:]]*xprt:' /proc/self/mountstats; }

mount -t nfs "$SERVER:/main" /mnt/a || fail "cannot mount without options"
grep -q " /mnt/a nfs4 .*vers=4\.2," /proc/mounts || fail "not NFSv4.2 without options: $(grep /mnt/a /proc/mounts)"
[ "$(connections)" = 1 ] || fail "$(connections) connections without options"
head -c 1000000 /dev/urandom >/mnt/a/file
sum=$(sha256sum </mnt/a/file)
detach /mnt/a
mount -t nfs4 "$SERVER:/" /mnt/a || fail "cannot mount the pseudo file system"
[ "$(ls /mnt/a)" = main ] || fail "the root lists $(ls /mnt/a)"
[ "$(sha256sum </mnt/a/main/file)" = "$sum" ] || fail "the file differs below the pseudo file system"
umount /mnt/a/main && detach /mnt/a
mark "mounted without options"

# read_all: reads the file 16 times at once, so that every connection is used.
read_all() {
	readers=
	for number in $(seq 16); do
		dd if=/mnt/a/file of=/run/tmp/read-$number bs=64k iflag=direct status=none 2>>/run/tmp/error &
		readers="$readers $!"
	done
	for reader in $readers; do wait "$reader" || fail "$VERSION: cannot read: $(cat /run/tmp/error)"; done
	for number in $(seq 16); do
		[ "$(sha256sum </run/tmp/read-$number)" = "$sum" ] || fail "$VERSION: the file differs"
	done
}

# Fields of an xprt line: tcp, port, binds, connects, ...; the eighth counts requests sent.
for VERSION in 3 4.1 4.2; do
	attach /mnt/a nconnect=8
	read_all
	mark "$VERSION: read"
	[ "$(connections)" = 8 ] || fail "$VERSION: $(connections) connections of 8"
	idle=$(awk '$1 == "xprt:" && $9 < 2' /proc/self/mountstats | wc -l)
	[ "$idle" = 0 ] || fail "$VERSION: $idle of 8 connections are unused"
	detach /mnt/a
done
mark "done"
