# Sticks that are pulled out or exchanged.

# a terminal for `script`
mkdir -p /dev/pts; mount -t devpts devpts /dev/pts

# ask NAME DISK: flash with a question on a terminal; what is written to descriptor 9 is typed
ask() {
  rm -f /tmp/keys; mkfifo /tmp/keys
  (timeout 100 script -qec "/host/mediawriter flash small.img /dev/$2 --record $out/$1.json --log $out/$1.csv" /dev/null \
    </tmp/keys >$out/$1.out 2>&1; echo $? >$out/$1.rc; touch $out/$1.err) &
  exec 9>/tmp/keys
  until_ok 60 grep -q "Type $2 to go on" $out/$1.out
}
answer() { echo "$1" >&9; exec 9>&-; wait; }

# B14, and first, while all names below are taken: A asks, B takes its name, the word is typed
a=$(disk AAAA)
ask swap $a
tell asked
await swapped
until_ok 30 eval '[ -n "$(disk BBBB)" ]'
b=$(disk BBBB)
echo $a $b >$out/swap.names
until_ok 10 test -b /dev/$b
cp /sys/block/$b/stat $out/swap.stat-before
answer $a
cp /sys/block/$b/stat $out/swap.stat-after

# another word is a no, and the right one a yes
ask unsure $b; answer yes
ask sure $b; answer $b

# B12
# pulled NAME SERIAL PHASE: flashes slowly, and the host pulls the stick out in that phase
pulled() {
  local name=$1 stick=$(disk $2)
  flash $name slow.img /dev/$stick &
  until_ok 60 rows $name $3 3
  tell $name
  wait
}
pulled pull-write PULLW write
pulled pull-verify PULLV verify

# B24: a reader without a card
tell flashed
await emptied
until_ok 20 eval '[ "$(cat /sys/block/$b/size)" = 0 ] || { dd if=/dev/$b of=/dev/null count=1 2>/dev/null; false; }'
mw empty-list devices --json
mw empty-all devices --json --all
flash empty small.img /dev/$b
echo /dev/$b >$out/empty.name
