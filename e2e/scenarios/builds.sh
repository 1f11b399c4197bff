#!/bin/sh
# builds.sh TARBALL SERVER PART...: until $OUT/stop exists, unpacks a Linux source tree, builds parts of its tools with make and gcc,
# runs one of them, and compares all sources with the tarball after a remount.
. "$(dirname "$0")/lib.sh"
tarball=$1 SERVER=$2
shift 2
attach /mnt/a
: >"$OUT/building"
count=0
until [ -e "$OUT/stop" ]; do
	cd /mnt/a
	tar xf "$tarball"
	cd linux-source-*
	for part; do
		make -s -C "tools/$part" >/run/tmp/build.log 2>&1 || { tail -20 /run/tmp/build.log; fail "make tools/$part"; }
	done
	printf 'holdfast.key = "%s"\n' $count >key.conf
	head -c 4096 /dev/zero >initrd
	tools/bootconfig/bootconfig -a key.conf initrd || fail "a built tool does not run"
	find . -type f -print0 | sort -z | xargs -0 sha256sum >/run/tmp/built
	cd /
	reattach /mnt/a
	cd /mnt/a/linux-source-*
	sha256sum --quiet -c /run/tmp/built || fail "built files differ after the remount"
	tar df "$tarball" -C .. >/run/tmp/difference 2>&1 || { head /run/tmp/difference; fail "differs from the tarball"; }
	cd /mnt/a
	rm -r linux-source-*
	[ -z "$(ls -A /mnt/a)" ] || fail "files remain after rm -r"
	count=$((count + 1))
	mark "$count builds"
	echo $count >"$OUT/builds"
done
cd /
detach /mnt/a
[ $count -gt 0 ] || fail "nothing was built"
