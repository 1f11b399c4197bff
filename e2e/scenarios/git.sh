#!/bin/sh
# git.sh REPOSITORY: clones, checks, commits, repacks; checks again after a remount.
. "$(dirname "$0")/lib.sh"
export GIT_CONFIG_COUNT=4 \
	GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' \
	GIT_CONFIG_KEY_1=user.name GIT_CONFIG_VALUE_1=Guest \
	GIT_CONFIG_KEY_2=user.email GIT_CONFIG_VALUE_2=guest@localhost \
	GIT_CONFIG_KEY_3=core.fsync GIT_CONFIG_VALUE_3=all
attach /mnt/a nconnect=4
cd /mnt/a
mark "cloning"
git clone -q --no-local --no-hardlinks "$1" clone || fail "git clone"
cd clone
mark "$(git ls-files | wc -l) files checked out"
git fsck --full --strict --no-progress || fail "git fsck of the clone"
[ -z "$(git status --porcelain)" ] || fail "a fresh clone is not clean"
for number in 1 2 3 4 5; do
	mkdir "added$number"
	for name in a b c d e; do echo "$number $name" >"added$number/$name"; done
	git add -A && git commit -q -m "Commit $number" || fail "git commit"
done
git gc -q --prune=now || fail "git gc"
git rev-parse HEAD >/run/tmp/head
mark "committed and packed"
cd /
reattach /mnt/a nconnect=4
cd /mnt/a/clone
git fsck --full --strict --no-progress || fail "git fsck after the remount"
[ "$(git rev-parse HEAD)" = "$(cat /run/tmp/head)" ] || fail "another HEAD after the remount"
[ -z "$(git status --porcelain)" ] || fail "not clean after the remount"
git diff --quiet HEAD || fail "files differ from HEAD after the remount"
