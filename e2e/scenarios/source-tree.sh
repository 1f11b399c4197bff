#!/bin/sh
# source-tree.sh TARBALL OBJECTS PART...: unpacks a Linux source tree, builds
# parts of its tools with make and gcc, at least so many objects, runs the tool
# bootconfig, and compares every byte after a remount.
. "$(dirname "$0")/lib.sh"
tarball=$1 objects=$2
shift 2
attach /mnt/a nconnect=4
grep -q nconnect=4 /proc/mounts || fail "the mount does not have four connections"
cd /mnt/a
mark "unpacking"
tar xf "$tarball"
cd linux-source-*
count=$(find . -type f | wc -l)
mark "$count files unpacked"
[ "$count" -ge 5000 ] || fail "only $count files, fewer than 5,000"
find . -type f -print0 | sort -z | xargs -0 sha256sum >/run/tmp/unpacked
mark "building"
for part; do
	make -s -C "tools/$part" >/run/tmp/build.log 2>&1 || { tail -20 /run/tmp/build.log; fail "make tools/$part"; }
	mark "built tools/$part"
done
printf 'holdfast.key = "value"\n' >key.conf
head -c 4096 /dev/zero >initrd
tools/bootconfig/bootconfig -a key.conf initrd || fail "a built tool does not run"
tools/bootconfig/bootconfig initrd | grep -q holdfast || fail "a built tool does not find its own output"
find . -type f -print0 | sort -z | xargs -0 sha256sum >/run/tmp/built
mark "$(find . -name '*.o' | wc -l) objects built"
[ "$(find . -name '*.o' | wc -l)" -ge "$objects" ] || fail "fewer than $objects objects were built"
cd /
reattach /mnt/a nconnect=4
cd /mnt/a/linux-source-*
sha256sum --quiet -c /run/tmp/unpacked || fail "sources differ after the remount"
sha256sum --quiet -c /run/tmp/built || fail "built files differ after the remount"
mark "compared after the remount"
tar df "$tarball" -C .. >/run/tmp/difference 2>&1 || { head /run/tmp/difference; fail "differs from the tarball"; }
cd /mnt/a
rm -r linux-source-*
[ -z "$(ls -A /mnt/a)" ] || fail "files remain after rm -r"
mark "removed"
