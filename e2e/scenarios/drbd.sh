#!/bin/sh
# drbd.sh PROGRAM: one of two machines that mirror a disk with DRBD. Guest 2 serves the group until it is killed; guest 3 serves it
# when $OUT/fenced exists, and stops when $OUT/served exists. The DRBD of this kernel is version 8.4, which has no quorum: the fence
# is the host, which kills guest 2 before it says so.
. "$(dirname "$0")/lib.sh"
program=$1

drbd() { drbdadm -c /run/drbd.conf "$@"; }
cluster() { "$program" cluster --config /run/node.toml "$@"; }
state() { drbd cstate home 2>/dev/null; }

modprobe drbd || fail "the guest's kernel has no DRBD"
modprobe loop || fail "the guest's kernel has no loop devices"
ip addr add "10.77.0.$((GUEST + 10))/24" dev vec0
mkdir -p /run/drbd /run/lock /run/home
truncate -s 160M /run/disk
losetup /dev/loop0 /run/disk || fail "losetup"
cat >/run/drbd.conf <<END
global { usage-count no; }
resource home {
	protocol C;
	device /dev/drbd0;
	disk /dev/loop0;
	meta-disk internal;
	on guest2 { address 10.77.0.12:7789; }
	on guest3 { address 10.77.0.13:7789; }
}
END
cat >/run/node.toml <<END
node = "guest$GUEST"
interface = "vec0"
socket = "/run/node.sock"
[[group]]
name = "home"
addresses = ["$SERVER/24"]
ports = [$PORT, 111]
data = "/run/home/data"
config = "/run/home.toml"
END
cat >/run/home.toml <<END
memory = "128 MiB"
[[export]]
path = "/main"
volume = "main"
squash = "none"
END
drbd create-md --force home >/dev/null 2>&1 || fail "create-md"
drbd up home || fail "up"
tries=0
until [ "$(state)" = Connected ]; do
	tries=$((tries + 1))
	[ $tries -lt 300 ] || fail "the two machines do not find each other: $(state)"
	sleep 0.1
done
"$program" node --config /run/node.toml &

if [ "$GUEST" = 2 ]; then
	# Both disks are new, so they are the same.
	drbd -- --clear-bitmap new-current-uuid home/0 || fail "new-current-uuid"
	drbd primary home || fail "primary"
	mkfs.ext4 -q /dev/drbd0 && mount /dev/drbd0 /run/home || fail "mount"
	"$program" pool create /run/home/data default --volume main --journal-size 16MiB >/dev/null || fail "pool create"
	cluster start home || fail "start"
	: >"$OUT/served-first"
	sleep 600
	exit 1
fi
await fenced
drbd primary home || fail "primary: $(cat /proc/drbd)"
mount /dev/drbd0 /run/home || fail "mount"
cluster start home || fail "start"
mark "took over"
cluster status
: >"$OUT/taken-over"
await served
cluster stop home || fail "stop"
"$program" check /run/home/data || fail "check"
umount /run/home
mark "done"
