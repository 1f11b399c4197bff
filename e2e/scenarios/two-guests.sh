#!/bin/sh
# two-guests.sh: two guests work in one directory. They synchronize through
# the directory itself: names that one creates must become visible to the other.
. "$(dirname "$0")/lib.sh"
attach /mnt/a noac
cd /mnt/a
me=$GUEST peer=$((3 - GUEST))

# meet NAME: continues when both guests have reached this point.
meet() {
	: >"met-$1-$me"
	tries=0
	until [ -e "met-$1-$peer" ]; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || fail "guest $peer did not reach $1"
		sleep 0.1
	done
}

meet start
# Exactly one guest creates each name, and both see the same winner.
mkdir -p race
won=0
for number in $(seq 100); do
	if mkdir "race/$number" 2>/dev/null; then
		echo "$me" >"race/$number/winner-$me"
		won=$((won + 1))
	fi
done
meet race
[ "$(ls race | wc -l)" = 100 ] || fail "$(ls race | wc -l) of 100 directories"
[ "$(find race -name 'winner-*' | wc -l)" = 100 ] || fail "not exactly one winner for each name"
[ "$(find race -name "winner-$me" | wc -l)" = $won ] || fail "won $won races, the directory says otherwise"
meet counted

# Data that one guest writes and closes is what the other reads on opening.
for number in $(seq 40); do
	head -c $((number * 1000)) /dev/urandom >"data-$me-$number"
	sha256sum "data-$me-$number" >"sum-$me-$number"
done
meet written
for number in $(seq 40); do
	sha256sum --quiet -c "sum-$peer-$number" || fail "data-$peer-$number differs"
done
meet checked

# Both rename and remove in one directory; each name ends up where its owner moved it.
mkdir -p shared
for number in $(seq 60); do
	echo "$me $number" >"shared/a-$me-$number"
	mv "shared/a-$me-$number" "shared/b-$me-$number"
	[ $((number % 3)) != 0 ] || rm "shared/b-$me-$number"
done
meet renamed
[ "$(ls shared | wc -l)" = 80 ] || fail "$(ls shared | wc -l) names instead of 80"
for number in $(seq 60); do
	if [ $((number % 3)) = 0 ]; then
		[ ! -e "shared/b-$peer-$number" ] || fail "b-$peer-$number was removed but exists"
	else
		[ "$(cat "shared/b-$peer-$number")" = "$peer $number" ] || fail "b-$peer-$number has wrong content"
	fi
done
meet end

# A listing during the other guest's creates shows each name that existed throughout exactly once.
mkdir -p "listing-$me"
for number in $(seq 300); do : >"listing-$me/stays-$number"; done
meet listing
for number in $(seq 150); do
	: >"listing-$peer/passing-$me-$number"
	rm "listing-$peer/passing-$me-$number"
done &
churn=$!
for pass in 1 2 3 4 5; do
	ls "listing-$me" | grep '^stays' | sort >/run/tmp/names
	[ "$(wc -l </run/tmp/names)" = 300 ] || fail "pass $pass lists $(wc -l </run/tmp/names) of 300 names"
	[ "$(uniq </run/tmp/names | wc -l)" = 300 ] || fail "pass $pass lists a name twice"
done
wait $churn
meet over
mark "done"
