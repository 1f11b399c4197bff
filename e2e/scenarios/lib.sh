# Functions of the scenarios, sourced inside a guest: mounting, waiting, failing.
set -eu
here=$(dirname "$0")
EXPORT=/main

fail() {
	echo "FAIL: $*"
	exit 1
}

# mark MESSAGE: prints a message with the seconds since boot.
mark() {
	echo "[$(cut -d' ' -f1 /proc/uptime)] $*"
}

# await FILE: waits until the peer or the host creates $OUT/FILE.
await() {
	tries=0
	until [ -e "$OUT/$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 900 ] || fail "$1 did not appear"
		sleep 0.1
	done
}

# meet NAME: continues when both guests have reached this point.
meet() {
	: >"$OUT/met-$1-$GUEST"
	await "met-$1-$((3 - GUEST))"
}

# counted NAME: prints a counter of the server, which the host reads.
counted() {
	question=$(mktemp "$OUT/question-XXXXXX")
	await "answer-${question##*-}"
	sed -n "s/^$1 //p" "$OUT/answer-${question##*-}"
}

# locked FILE TYPE START LENGTH HOW [COMMAND]: see locked.pl.
locked() { perl "$here/locked.pl" "$@"; }

# denied FILE TYPE START LENGTH: succeeds if another lock conflicts.
denied() {
	status=0
	locked "$@" try || status=$?
	[ $status = 1 ]
}

# attach DIRECTORY [OPTIONS]: mounts the export, with option hard.
attach() {
	case $SERVER in *:*) proto=tcp6 ;; *) proto=tcp ;; esac
	options="vers=$VERSION,proto=$proto,hard,port=$PORT"
	[ "$VERSION" != 3 ] || options="$options,nolock,mountport=$MOUNTPORT,mountproto=tcp"
	mount -t nfs -o "$options${2:+,$2}" "$SERVER:$EXPORT" "$1" || fail "cannot mount $SERVER:$EXPORT on $1"
}

detach() {
	umount "$1" || fail "cannot unmount $1"
}

# reattach DIRECTORY [OPTIONS]: remounts, which empties the client's cache.
reattach() {
	detach "$1"
	attach "$@"
}

# attach_with_locks DIRECTORY: mounts with locks between clients. For NFSv3 it
# starts a portmapper and a status monitor, whose state is kept in $OUT.
attach_with_locks() {
	if [ "$VERSION" = 3 ]; then
		: >/run/empty
		echo "hosts: files" >/run/nsswitch.conf
		mount --bind /run/empty /etc/resolv.conf
		mount --bind /run/nsswitch.conf /etc/nsswitch.conf
		mkdir -p /run/rpcbind /run/nfs "$OUT/nfs-$GUEST"
		[ ! -d "$OUT/nfs-$GUEST/sm" ] || cp -a "$OUT/nfs-$GUEST/." /run/nfs
		mkdir -p /run/nfs/sm /run/nfs/sm.bak
		chown -R statd /run/nfs
		mount --bind /run/nfs /var/lib/nfs
		rpcbind -w || fail "cannot start rpcbind"
		rpc.statd || fail "cannot start rpc.statd"
		cp -a /run/nfs/. "$OUT/nfs-$GUEST"
		options="vers=3,tcp,hard,port=$PORT,mountport=$MOUNTPORT,mountproto=tcp"
		mount -t nfs -o "$options" "$SERVER:$EXPORT" "$1" || fail "cannot mount $SERVER:$EXPORT on $1"
	else
		attach "$1"
	fi
}
