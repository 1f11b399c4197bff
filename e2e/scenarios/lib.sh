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
	mount -t nfs -o "vers=3,tcp,hard,nolock,port=$PORT,mountport=$MOUNTPORT,mountproto=tcp${2:+,$2}" \
		"$SERVER:/main" "$1" || fail "cannot mount $SERVER:/main on $1"
}

detach() {
	umount "$1" || fail "cannot unmount $1"
}

# reattach DIRECTORY [OPTIONS]: what is read from then on comes from the server.
reattach() {
	detach "$1"
	attach "$@"
}
