# Disks with and without discard, by UAS and bulk-only, on USB 2 and 3.
uas=/dev/$(disk UAS1) bot=/dev/$(disk BOT1) big=/dev/$(disk BOT4K) no=/dev/$(disk NOUNMAP)
usb2=/dev/$(disk USB2) usb3=/dev/$(disk USB3)
for name in uas bot big no usb2 usb3; do eval echo \$$name >$out/$name.name; done
mode() { echo /sys/block/${1#/dev/}/device/scsi_disk/*/provisioning_mode; }
blocks() { stat -c %b /host/$1.img >$out/$2; }

mw devices devices --json
mw list devices

# B73: discarded and written; refused with the reason; switched on and done
blocks uas uas.before
flash uas-memtest memtest.iso $uas
blocks uas uas.after
flash uas-hybrid hybrid.iso $uas --discard always
flash usb3-hybrid hybrid.iso $usb3
blocks bot bot.before
mw explain discard $bot --yes
cp $(mode $bot) $out/mode.before
mw enable discard $bot --yes --enable-unmap --sample --record $out/enable.json
cp $(mode $bot) $out/mode.after
blocks bot bot.after
mw no-unmap discard $no --yes --enable-unmap
cp $(mode $no) $out/mode.no-unmap

# B75: nothing is offered
flash auto memtest.iso $usb2 --discard auto
cp /sys/block/${usb2#/dev/}/stat $out/always.stat-before
flash always memtest.iso $usb2 --discard always
cp /sys/block/${usb2#/dev/}/stat $out/always.stat-after

# B74: offered by force, and then the bridge refuses it
echo unmap >$(mode $no)
flash forced memtest.iso $no
cp $(mode $no) $out/mode.forced

# sectors of 4096 bytes
flash big-hybrid hybrid.iso $big
flash big-partitioned odd1.img $big
for n in 1 511 4095; do flash big-odd$n odd$n.img $big --force; done
for n in 1 513; do flash small-odd$n odd$n.img $usb2; done

# B81: trim, on the disk that can discard now
sfdisk -q $bot <<TABLE
,20M
,40M
,20M
,
TABLE
mkfs.ext4 -q ${bot}1; mkfs.vfat ${bot}2 >/dev/null; mkfs.ext4 -q ${bot}3
mkdir -p /mnt/ext4 /mnt/vfat /mnt/other
mount ${bot}1 /mnt/ext4; mount ${bot}2 /mnt/vfat
echo kept >/mnt/ext4/kept; echo kept >/mnt/vfat/kept
dd if=/dev/urandom of=/mnt/vfat/gone bs=1M count=24 2>/dev/null; sync; rm /mnt/vfat/gone; sync
blocks bot trim.before
mw trim-path discard --trim /mnt/ext4
mw trim-disk discard --trim $bot
blocks bot trim.after
cat /mnt/ext4/kept /mnt/vfat/kept >$out/trim.kept
umount /mnt/ext4 /mnt/vfat
mw trim-none discard --trim $bot
# a filesystem on a disk without discard
mkfs.ext4 -q -F $usb2; mount $usb2 /mnt/other
mw trim-cannot discard --trim /mnt/other
umount /mnt/other

# the end: a stick that is taken off
flash eject memtest.iso $usb3 --eject
sleep 1
[ -e /sys/block/${usb3#/dev/} ] || touch $out/eject.gone
