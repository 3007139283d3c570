# A live system on a UAS disk that is discarded first.
uas=/dev/$(disk LIVE)
stat -c %b /host/live.img >$out/live.before
flash live live.iso $uas --discard always
stat -c %b /host/live.img >$out/live.after
