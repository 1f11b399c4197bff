# Defines sudo for commands of documents, which run as root here. Sourced.

# sudo [-u USER] COMMAND...
sudo() {
	if [ "$1" = -u ]; then
		user=$2
		shift 2
		setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups "$@"
	else
		"$@"
	fi
}
