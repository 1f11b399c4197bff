# Sourced by the scenarios, inside a guest: mounting, and how to fail.
set -eu

fail() {
	echo "FAIL: $*"
	exit 1
}

# Seconds since boot, for the marks that say where the time goes.
mark() {
	echo "[$(cut -d' ' -f1 /proc/uptime)] $*"
}

# attach DIRECTORY [OPTIONS]: hard, as users mount it who mean it.
attach() {
	options="vers=$VERSION,tcp,hard,port=$PORT"
	[ "$VERSION" != 3 ] || options="$options,nolock,mountport=$MOUNTPORT,mountproto=tcp"
	mount -t nfs -o "$options${2:+,$2}" "$SERVER:/main" "$1" || fail "cannot mount $SERVER:/main on $1"
}

detach() {
	umount "$1" || fail "cannot unmount $1"
}

# reattach DIRECTORY [OPTIONS]: what is read from then on comes from the server.
reattach() {
	detach "$1"
	attach "$@"
}
