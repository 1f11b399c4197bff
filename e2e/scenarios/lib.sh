# Sourced by the scenarios, inside a guest: mounting, and how to fail.
set -eu
here=$(dirname "$0")

fail() {
	echo "FAIL: $*"
	exit 1
}

# Seconds since boot, for the marks that say where the time goes.
mark() {
	echo "[$(cut -d' ' -f1 /proc/uptime)] $*"
}

# await FILE: of $OUT, which the peer or the host makes.
await() {
	tries=0
	until [ -e "$OUT/$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 900 ] || fail "$1 never came"
		sleep 0.1
	done
}

# meet NAME: go on when both guests have come here.
meet() {
	: >"$OUT/met-$1-$GUEST"
	await "met-$1-$((3 - GUEST))"
}

# counted NAME: what the server has counted by now; the host asks it.
counted() {
	question=$(mktemp "$OUT/question-XXXXXX")
	await "answer-${question##*-}"
	sed -n "s/^$1 //p" "$OUT/answer-${question##*-}"
}

# locked FILE TYPE START LENGTH HOW [COMMAND]: see locked.pl.
locked() { perl "$here/locked.pl" "$@"; }

# denied FILE TYPE START LENGTH: somebody else has a lock there.
denied() {
	status=0
	locked "$@" try || status=$?
	[ $status = 1 ]
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

# attach_with_locks DIRECTORY: the same with locks between clients. NFSv3 needs
# a portmapper and a status monitor here, whose memory outlives the guest in $OUT.
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
		rpcbind -w || fail "no rpcbind"
		rpc.statd || fail "no rpc.statd"
		cp -a /run/nfs/. "$OUT/nfs-$GUEST"
		options="vers=3,tcp,hard,port=$PORT,mountport=$MOUNTPORT,mountproto=tcp"
		mount -t nfs -o "$options" "$SERVER:/main" "$1" || fail "cannot mount $SERVER:/main on $1"
	else
		attach "$1"
	fi
}
