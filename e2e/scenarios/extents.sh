#!/bin/sh
# extents.sh: features of NFSv4.2: clones, server-side copies, holes,
# allocation, extended attributes. The server has a disk of 2 GiB to itself.
. "$(dirname "$0")/lib.sh"
attach /mnt/a
cd /mnt/a

# call CALL...: see call.pl. refused ERROR CALL...: the call must fail with this error.
call() { perl "$here/call.pl" "$@"; }
refused() {
	expected=$1
	shift
	! got=$(call "$@") || fail "succeeded: $*"
	[ "$got" = "$expected" ] || fail "$got instead of $expected: $*"
}
# sent OPERATION: the client has sent it, rather than emulated it with others.
sent() {
	awk -v name="$1:" '$1 == name && $2 > 0 { sent = 1 } END { exit !sent }' /proc/self/mountstats ||
		fail "the client sent no $1"
}
free() { df --output=avail -k /mnt/a | tail -1 | tr -d ' '; }
used() { du -k "$1" | cut -f1; }
# same A B: both files are equal, read from the server.
same() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	cmp "$1" "$2" || fail "$1 and $2 differ"
}
# extents FILE MAP: FILE has data in these ranges.
extents() {
	got=$(call map "$1")
	[ "$got" = "$2" ] || fail "$1 has data at '$got', not at '$2'"
}
# overwrite FILE NUMBER: writes 100,000 bytes at offset NUMBER * 1001.
overwrite() { dd if=/run/tmp/piece of="$1" bs=1001 seek="$2" conv=notrunc,fsync 2>/dev/null; }
head -c 100000 /dev/urandom >/run/tmp/piece

# Clones share space until they are written, and are independent files.
head -c 268435456 /dev/urandom >original
sha256sum <original >/run/tmp/before
sync
empty=$(free)
for number in 1 2 3 4 5 6 7 8; do cp --reflink=always original clone$number || fail "cp --reflink=always"; done
sent CLONE
[ $((empty - $(free))) -lt 65536 ] || fail "8 clones of 256 MiB take $((empty - $(free))) KiB"
[ "$(used clone8)" = 262144 ] || fail "a clone uses $(used clone8) KiB"
same original clone8
rm clone3 clone4 clone5 clone6 clone7 clone8
overwrite clone1 1001
sha256sum <clone1 >/run/tmp/clone1
overwrite original 77777
truncate -s 200000000 original
sync
echo 3 >/proc/sys/vm/drop_caches
[ "$(sha256sum <clone1)" = "$(cat /run/tmp/clone1)" ] || fail "writing the original changed a clone"
[ "$(sha256sum <clone2)" = "$(cat /run/tmp/before)" ] || fail "writing the original or a clone changed another clone"
[ "$(cat /run/tmp/clone1)" != "$(cat /run/tmp/before)" ] || fail "writing a clone changed nothing"
rm clone1 original
[ "$(sha256sum <clone2)" = "$(cat /run/tmp/before)" ] || fail "removing the original changed a clone"
mark "clones"

# Copies part of a file into another, aligned to blocks and unaligned.
head -c 20000000 clone2 >/run/tmp/source
head -c 20000000 /dev/urandom >/run/tmp/target
cp /run/tmp/target target
call clone clone2 4096 target 8192 4194304 || fail "FICLONERANGE"
call copy clone2 1001 target 6000003 5000005 || fail "copy_file_range"
sent COPY
dd if=/run/tmp/source of=/run/tmp/target bs=4096 skip=1 seek=2 count=1024 conv=notrunc 2>/dev/null
dd if=/run/tmp/source of=/run/tmp/target bs=64k iflag=skip_bytes,count_bytes oflag=seek_bytes \
	skip=1001 seek=6000003 count=5000005 conv=notrunc 2>/dev/null
same /run/tmp/target target
refused EINVAL clone clone2 1 target 0 4096
empty=$(free)
call copy clone2 0 copied 0 268435456 || fail "copy_file_range of 256 MiB"
same clone2 copied
[ $((empty - $(free))) -lt 65536 ] || fail "a server-side copy takes $((empty - $(free))) KiB"
rm copied clone2
mark "copies"

# Holes: never written, and punched.
truncate -s 64M sparse
for block in 0 1000 16383; do
	dd if=/run/tmp/source of=sparse bs=4096 count=1 skip=$((block % 4000)) seek=$block conv=notrunc 2>/dev/null
done
extents sparse '0-4096 4096000-4100096 67104768-67108864'
sent SEEK
[ "$(used sparse)" -le 12 ] || fail "three blocks use $(used sparse) KiB"
cp --reflink=never --sparse=auto sparse sparse2 || fail "cp of a sparse file"
same sparse sparse2
extents sparse2 '0-4096 4096000-4100096 67104768-67108864'
truncate -s 5000000 sparse
truncate -s 64M sparse
extents sparse '0-4096 4096000-4100096'
fallocate -p -o 1000001 -l 3000001 target || fail "fallocate -p"
sent DEALLOCATE
dd if=/dev/zero of=/run/tmp/target bs=64k iflag=count_bytes oflag=seek_bytes seek=1000001 count=3000001 \
	conv=notrunc 2>/dev/null
same /run/tmp/target target
extents target '0-1000001 4000002-20000000'
[ "$(used target)" -lt $((17000000 / 1024 + 8)) ] || fail "with a hole of 3 MB 20 MB use $(used target) KiB"
dd if=/run/tmp/piece of=target bs=100000 oflag=seek_bytes seek=2000000 conv=notrunc 2>/dev/null
dd if=/run/tmp/piece of=/run/tmp/target bs=100000 oflag=seek_bytes seek=2000000 conv=notrunc 2>/dev/null
same /run/tmp/target target
mark "holes"

# Room: the file grows by zeros, and what does not fit is refused.
fallocate -o 10000000 -l 15000000 target || fail "fallocate"
sent ALLOCATE
truncate -s 25000000 /run/tmp/target
same /run/tmp/target target
! fallocate -l 4G huge 2>/run/tmp/error || fail "4 GiB fit on a disk of 2"
grep -q 'No space left on device' /run/tmp/error || fail "not ENOSPC but: $(cat /run/tmp/error)"
mark "room"

# Extended attributes.
mkdir folder
call set target user.one first create || fail "setxattr"
refused EEXIST set target user.one second create
refused ENODATA set target user.two second replace
refused ENODATA get target user.two
call set target user.one second replace || fail "replacing an attribute"
call set target user.empty '' || fail "an empty attribute"
call set folder user.folder value || fail "an attribute of a directory"
refused ENOTSUP set target trusted.one value
long=$(head -c 20000 /dev/urandom | base64 -w 0)
call set target user.long "$long" || fail "a long attribute"
call set target user.gone value && call remove target user.gone || fail "removing an attribute"
refused ENODATA remove target user.gone
for number in $(seq 100 299); do call set folder user.$number value$number || fail "200 attributes"; done
mv target moved
attributes() {
	[ "$(call list moved)" = 'user.empty user.long user.one' ] || fail "$1: the attributes are $(call list moved)"
	[ "$(call get moved user.one)" = second ] || fail "$1: user.one is $(call get moved user.one)"
	[ "$(call get moved user.long)" = "$long" ] || fail "$1: the long attribute differs"
	[ -z "$(call get moved user.empty)" ] || fail "$1: the empty attribute has a value"
	[ "$(call list folder | wc -w)" = 201 ] || fail "$1: $(call list folder | wc -w) of 201 attributes"
	[ "$(call get folder user.299)" = value299 ] || fail "$1: an attribute of the directory differs"
}
attributes before
for operation in SETXATTR GETXATTR LISTXATTRS REMOVEXATTR; do sent $operation; done
mark "attributes"

cd /
reattach /mnt/a
cd /mnt/a
attributes "after the remount"
same /run/tmp/target moved
extents sparse '0-4096 4096000-4100096'
mark "compared after the remount"
