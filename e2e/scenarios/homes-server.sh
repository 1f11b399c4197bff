#!/bin/sh
# homes-server.sh FOLDER: sets a server up as docs/homes.md says, and becomes the
# server. Runs outside a guest, in a mount name space of its own, in which the
# folders that the document writes to are copies or empty.
set -eu
folder=$1 blocks=$1/out/homes
. "$(dirname "$0")/as-root.sh"
mkdir "$folder/etc" "$folder/lib" "$folder/bin"
cp -a /etc/. "$folder/etc"
mount --bind "$folder/etc" /etc
mount --bind "$folder/lib" /var/lib
mount --bind "$folder/bin" /usr/local/bin
cd "$folder"
. "$blocks/server"
cp "$blocks/file--etc-holdfast.toml" /etc/holdfast.toml
. "$blocks/check"
# What systemd does.
unit=$blocks/file--etc-systemd-system-holdfast.service
user=$(sed -n 's/^User=//p' "$unit")
cd /
exec setpriv --reuid "$user" --regid "$user" --init-groups $(sed -n 's/^ExecStart=//p' "$unit")
