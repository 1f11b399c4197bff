#!/bin/sh
# sqlite.sh SECONDS: two writers and a reader on one database, in both journal
# modes, with PRAGMA integrity_check before and after a remount.
. "$(dirname "$0")/lib.sh"
attach /mnt/a nconnect=4
cd /mnt/a

# Each writer records the last row whose transaction SQLite committed.
writer() {
	stop=$(($(date +%s) + $3)) row=0
	while [ "$(date +%s)" -lt "$stop" ]; do
		row=$((row + 1))
		sqlite3 -bail "$1" ".timeout 60000" "PRAGMA synchronous=FULL; BEGIN IMMEDIATE;
			INSERT INTO rows SELECT '$2', $row, value, randomblob(2000) FROM generate_series(1, 10);
			UPDATE totals SET n = n + 10 WHERE writer = '$2';
			DELETE FROM rows WHERE writer = '$2' AND number < $row - 20; COMMIT;" >/dev/null || return 1
		echo $row >"/run/tmp/$1.$2"
	done
}

verify() {
	[ "$(sqlite3 "$1" 'PRAGMA integrity_check')" = ok ] || fail "$1: integrity_check"
	for name in one two; do
		last=$(cat "/run/tmp/$1.$name")
		[ "$(sqlite3 "$1" "SELECT n FROM totals WHERE writer='$name'")" = $((last * 10)) ] ||
			fail "$1: the database has another number than writer $name's $last transactions"
		[ "$(sqlite3 "$1" "SELECT max(number) FROM rows WHERE writer='$name'")" = "$last" ] ||
			fail "$1: the last row of writer $name is missing"
	done
}

for mode in delete wal; do
	mark "journal mode $mode"
	sqlite3 $mode.db ".timeout 60000" "PRAGMA journal_mode=$mode;
		CREATE TABLE rows(writer, number, part, payload); CREATE INDEX i ON rows(writer, number);
		CREATE TABLE totals(writer, n); INSERT INTO totals VALUES ('one', 0), ('two', 0);" >/dev/null
	writer $mode.db one "$1" &
	one=$!
	writer $mode.db two "$1" &
	two=$!
	while kill -0 $one 2>/dev/null; do
		sqlite3 $mode.db ".timeout 60000" 'SELECT count(*), sum(length(payload)) FROM rows' >/dev/null ||
			fail "$mode: the reader failed"
		sleep 1
	done
	wait $one || fail "$mode: writer one failed"
	wait $two || fail "$mode: writer two failed"
	verify $mode.db
	mark "$mode: $(cat /run/tmp/$mode.db.one) and $(cat /run/tmp/$mode.db.two) transactions"
done
cd /
reattach /mnt/a nconnect=4
cd /mnt/a
verify delete.db
verify wal.db
mark "intact after the remount"
