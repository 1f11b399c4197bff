#!/bin/sh
# quotas.sh: asks for quotas as users do, with quota(1), and compares its lines with those for an ext4 file system with the
# same limits and files, which the guest's own kernel and rpc.rquotad serve.
. "$(dirname "$0")/lib.sh"
USER=4001 GROUP=4002

# as_user COMMAND...: runs it as the user whom the host has limited.
as_user() { setpriv --reuid "$USER" --regid "$GROUP" --groups "$GROUP" "$@"; }

# fill DIRECTORY: makes files of the user, in whole blocks of ext4.
fill() {
	mkdir -m 1777 "$1/home"
	as_user sh -c "cd '$1/home' && head -c 3145728 /dev/urandom >large &&
		for i in 1 2 3 4 5; do head -c 4096 /dev/urandom >small.\$i || exit 1; done" || fail "cannot fill $1"
	sync -f "$1/home/large"
}

# columns FILE SYSTEM: what the last command of `same` said of it, without its name.
columns() { awk -v name="$1" '$1 == name { $1 = ""; print }' /run/tmp/shown; }

# same COMMAND...: a command that shows quotas must say the same of both servers.
same() {
	"$@" >/run/tmp/shown 2>&1 || true
	ours=$(columns "$SERVER:$mounted") theirs=$(columns "127.0.0.1:/run/export")
	[ -n "$ours" ] || fail "$*: nothing of ours: $(cat /run/tmp/shown)"
	[ "$ours" = "$theirs" ] || fail "$*: ours$ours, theirs$theirs: $(cat /run/tmp/shown)"
	mark "$*:$ours"
}

# A portmapper of the guest's own, for rpc.rquotad.
: >/run/empty
echo "hosts: files" >/run/nsswitch.conf
mount --bind /run/empty /etc/resolv.conf
mount --bind /run/nsswitch.conf /etc/nsswitch.conf
mkdir -p /run/rpcbind
rpcbind -w || fail "cannot start rpcbind"

modprobe -a loop quota_v2 || fail "this kernel has no quotas"
truncate -s 64M /run/image
mkfs.ext4 -q -O quota -E quotatype=usrquota:grpquota /run/image
mkdir /run/export
mount -o loop,usrquota,grpquota /run/image /run/export || fail "cannot mount ext4 with quotas"
setquota -u $USER 2048 10240 5 100 /run/export || fail "cannot limit the user on ext4"
setquota -g $GROUP 1048576 8388608 0 0 /run/export || fail "cannot limit the group on ext4"
rpc.rquotad 2>/run/tmp/error || fail "cannot start rpc.rquotad: $(cat /run/tmp/error)"
peer=$(dirname "$0")/../peer
ours=$SERVER
. "$peer/kernel"
SERVER=$ours
# rpc.rquotad looks for the path that was mounted among those of this machine, so it must be there too.
mkdir -p /run/export/run/export
mount -t nfs4 127.0.0.1:/run/export /mnt/b || fail "cannot mount the guest's own server"

attach /mnt/a
fill /mnt/a
fill /mnt/b
sync -f /run/export
mounted=/main
same as_user quota -w -u
same as_user quota -w -g
same as_user quota -w -s -v -u -g
same quota -w -v -u $USER
same quota -w -v -g $GROUP
# Nobody limits this one.
same setpriv --reuid 4003 --regid 4003 --clear-groups quota -w -v -u

detach /mnt/a
EXPORT=/main/home
attach /mnt/a
mounted=/main/home
same as_user quota -w -u
detach /mnt/a
if [ "$VERSION" != 3 ]; then
	mount -t nfs4 "$SERVER:/" /mnt/a || fail "cannot mount the pseudo file system"
	ls /mnt/a/main >/dev/null
	mounted=/main
	same as_user quota -w -u
fi
mark "done"
