# A live system on a USB disk, copied to a larger one. A stick that is mounted is no source.
small=/dev/$(disk SMALL) large=/dev/$(disk LARGE) stick=/dev/$(disk STICK)
flash live hybrid.iso $small
mw clone clone $small $large --yes --record $out/clone.json --log $out/clone.csv
mw verify verify $small hybrid.iso
mkfs.vfat -I $stick >/dev/null
mkdir -p /mnt/stick
mount -t vfat $stick /mnt/stick
mw mounted clone $stick $large --yes
mw frozen clone $stick $large --yes --freeze
umount /mnt/stick
mw same clone $stick $stick --yes
