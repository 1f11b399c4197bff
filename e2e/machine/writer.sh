#!/bin/sh
# writer.sh FILE - append numbered lines to FILE, each one synced before the next, until $SHARE/stop exists. $SHARE/written is
# the number of the last line that fsync acknowledged, $SHARE/failed the first error. A restarted writer goes on.
SHARE=/run/share
line=$(cat $SHARE/written 2>/dev/null || echo 0)
until [ -e $SHARE/stop ]; do
	line=$((line + 1))
	if ! { echo $line >>"$1" && sync "$1"; }; then
		echo "line $line" >$SHARE/failed
		exit 1
	fi
	echo $line >$SHARE/written.new
	mv $SHARE/written.new $SHARE/written
done
rm $SHARE/stop
