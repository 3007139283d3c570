# Slow sticks on a machine with less memory than the image is long.
cliff=$(disk CLIFF) large=$(disk LARGE) stall=$(disk STALL)

# a write cache that runs full
cp /sys/block/$cliff/stat $out/cliff.stat-before
flash cliff cliff.img /dev/$cliff --block-size 256KiB
cp /sys/block/$cliff/stat $out/cliff.stat-after

# B11: what is dirty or under way in memory, in KiB, while the image is written
grep MemTotal: /proc/meminfo | tr -dc 0-9 >$out/memory
dirty() { awk '/^(Dirty|Writeback):/ {s += $2} END {print s}' /proc/meminfo; }
(while [ ! -e /tmp/done ]; do dirty; sleep 1; done >$out/dirty) &
flash large large.img /dev/$large
touch /tmp/done; wait
# what a copy through the page cache looks like
dd if=/dev/zero of=/tmp/zeros bs=1M count=30 2>/dev/null
cat /tmp/zeros >/dev/$large & sleep 1; dirty >$out/dirty-buffered; wait; sync

# a stick that stops for some seconds: the host slows it down and lets it go again
flash stall stall.img /dev/$stall &
until_ok 60 rows stall write 2
tell stalling
wait
