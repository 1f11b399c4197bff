#!/bin/sh
# fsx.sh PROGRAM SECONDS SEED: runs the file system exerciser through the page
# cache with mmap, and with the cache invalidated and files reopened often.
. "$(dirname "$0")/lib.sh"
attach /mnt/a nconnect=8
cat >/run/tmp/cached.toml <<END
flen = 1048576
[opsize]
max = 131072
[weights]
close_open = 1
fsync = 0.5
fdatasync = 0.5
mapread = 2
mapwrite = 2
read = 3
write = 3
truncate = 2
sendfile = 1
END
cat >/run/tmp/dropped.toml <<END
nomsyncafterwrite = true
flen = 4194304
[opsize]
max = 1048576
[weights]
close_open = 5
invalidate = 5
fsync = 2
fdatasync = 1
mapread = 2
mapwrite = 2
read = 3
write = 3
truncate = 2
END
seed=$3
end=$(($(date +%s) + $2)) rounds=0
while [ "$(date +%s)" -lt $end ]; do
	for kind in cached dropped; do
		mkdir -p "/run/tmp/$kind"
		timeout -s INT 900 "$1" -q -f /run/tmp/$kind.toml -P "/run/tmp/$kind" -S "$seed" -N 3000 \
			/mnt/a/exercised.$kind >"/run/tmp/$kind/log" 2>&1 || {
			tail -40 "/run/tmp/$kind/log"
			fail "fsx, $kind, seed $seed"
		}
		rm /mnt/a/exercised.$kind
		rounds=$((rounds + 1))
		seed=$((seed + 1))
	done
done
mark "$rounds rounds of 3000 operations, seeds $3 to $((seed - 1))"
