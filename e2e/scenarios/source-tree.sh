#!/bin/sh
# source-tree.sh TARBALL: unpack a Linux kernel's source, build a kernel from
# it, and find every byte again after an unmount.
. "$(dirname "$0")/lib.sh"
attach /mnt/a nconnect=4
grep -q nconnect=4 /proc/mounts || fail "the mount has not four connections"
cd /mnt/a
mark "unpacking"
tar xf "$1"
cd linux-source-*
count=$(find . -type f | wc -l)
mark "$count files unpacked"
[ "$count" -ge 5000 ] || fail "only $count files: the promise is about 5,000 and more"
find . -type f -print0 | sort -z | xargs -0 sha256sum >/run/tmp/unpacked
mark "configuring"
make -s ARCH=um SUBARCH=x86_64 tinyconfig >/run/tmp/configure.log 2>&1 || { tail /run/tmp/configure.log; fail "tinyconfig"; }
mark "building"
make -s ARCH=um SUBARCH=x86_64 linux >/run/tmp/build.log 2>&1 || { tail -20 /run/tmp/build.log; fail "make linux"; }
./linux --version || fail "the kernel that was built does not run"
find . -type f -print0 | sort -z | xargs -0 sha256sum >/run/tmp/built
mark "$(find . -name '*.o' | wc -l) objects built"
cd /
reattach /mnt/a nconnect=4
cd /mnt/a/linux-source-*
sha256sum --quiet -c /run/tmp/unpacked || fail "sources differ after the remount"
sha256sum --quiet -c /run/tmp/built || fail "built files differ after the remount"
mark "all the same after the remount"
tar df "$1" -C .. >/run/tmp/difference 2>&1 || { head /run/tmp/difference; fail "differs from the tarball"; }
cd /mnt/a
rm -r linux-source-*
[ -z "$(ls -A /mnt/a)" ] || fail "something was left behind"
mark "removed"
