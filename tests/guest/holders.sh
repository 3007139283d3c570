# A disk that is in use in every way; the disk of the system; partitions; somebody who mounts all the time.
held=/dev/$(disk HELD) system=/dev/$(disk SYSTEM) target=/dev/$(disk TARGET)
echo $held >$out/held.name; echo $system >$out/system.name

# B16, B17: six partitions, six kinds of use
sfdisk -q $held <<TABLE
label: gpt
size=4M
size=4M
size=12M
size=4M
size=24M
size=4M
TABLE
mkfs.ext4 -q ${held}1; mkdir -p /mnt/stick; mount ${held}1 /mnt/stick
mkswap ${held}2 >/dev/null; swapon ${held}2
lvm vgcreate -qq my-group ${held}3 >/dev/null; lvm lvcreate -qq -y -an -Zn -l 1 -n vol my-group >/dev/null
lvm vgchange -qq -ay my-group >/dev/null
mdadm --create /dev/md7 --run --level=linear --force --raid-devices=1 ${held}4 >/dev/null 2>&1
modprobe -a loop dm-crypt
printf secret | cryptsetup luksFormat -q --type luks1 --pbkdf-force-iterations 1000 --key-file - ${held}5
printf secret | cryptsetup open --key-file - ${held}5 my-secret
dmsetup create piece --table "0 100 linear ${held}6 0"
sync; sleep 1; sync
mw held-list devices --all
sha256sum <${held} >$out/held.before
flash held small.img $held
flash held-force small.img $held --force --unmount --discard never
mw held-discard discard $held --yes --force --unmount
mw held-verify verify $held small.img
sync
sha256sum <${held} >$out/held.after
# every command that the message gives is run as it stands
grep '^      ' $out/held.err | sed -e 's/^ *//' -e 's/, or give .*//' -e '/^choose another/d' |
  sed -e 's/^vgchange/lvm vgchange/' >$out/held.commands
. $out/held.commands >$out/held.released 2>&1
mw held-free flash small.img $held --dry-run

# B26, B27: a partition is not promoted to its disk
mkdir -p /dev/disk/by-id
ln -s ../../${held#/dev/} /dev/disk/by-id/usb-HELD
ln -s ../../${held#/dev/}1 /dev/disk/by-id/usb-HELD-part1
flash part small.img ${held}1
flash part-link small.img /dev/disk/by-id/usb-HELD-part1
mw whole-link flash small.img /dev/disk/by-id/usb-HELD --dry-run

# B109: below /boot, through a mapping over a partition
sfdisk -q $system <<TABLE
,24M
TABLE
dmsetup create boot --table "0 40000 linear ${system}1 0"
mkfs.ext4 -q /dev/mapper/boot; mkdir -p /boot; mount /dev/mapper/boot /boot
flash system small.img $system --force --unmount
mw system-list devices --json
umount /boot; dmsetup remove boot
# and with a swap file on it
mkfs.ext4 -q -F ${system}1; mount ${system}1 /mnt/stick
dd if=/dev/zero of=/mnt/stick/swap bs=1M count=8 2>/dev/null; mkswap /mnt/stick/swap >/dev/null 2>&1
swapon /mnt/stick/swap
flash swapfile small.img $system --force --unmount
swapoff /mnt/stick/swap; umount /mnt/stick

# B30: a disk that takes writes and forgets them (dm-flakey, always down)
dmsetup create liar --table "0 $(cat /sys/block/${system#/dev/}/size) flakey $system 0 0 1000 1 drop_writes"
flash liar small.img /dev/mapper/liar
flash liar-force small.img /dev/mapper/liar --force
dmsetup remove liar

# B32: old partitions on the target, and an image with a filesystem that was not unmounted
sfdisk -q $target <<TABLE
,16M
TABLE
mkfs.ext4 -q ${target}1
truncate -s 40M /tmp/image.img
sfdisk -q /tmp/image.img <<TABLE
,20M
,12M,c
TABLE
image=$(losetup -fP --show /tmp/image.img)
mkfs.ext4 -q ${image}p1; mkfs.vfat ${image}p2 >/dev/null 2>&1
mount ${image}p1 /mnt/stick; echo journal >/mnt/stick/file; sync
cp /tmp/image.img /host/dirty.img
umount /mnt/stick; losetup -d $image

# automount NAME: tries to mount anything on the target until it succeeds, as a desktop would
automount() {
  mkdir -p /mnt/auto
  local end=$(($(date +%s) + 200))
  while [ $(date +%s) -lt $end ]; do
    # Not the second partition: FAT is mounted and unmounted without a trace.
    for node in ${target}1 $target; do
      echo try >>/tmp/$1.tries
      if mount $node /mnt/auto 2>/dev/null; then
        uptime_s >$out/$1.mounted; umount /mnt/auto; return
      fi
    done
  done
}
automount before
uptime_s >$out/auto.start
flash auto dirty.img $target &
until_ok 30 test -e $out/auto.csv  # the disk is open by then
automount during &
until_ok 100 test -e $out/auto.rc
wc -l </tmp/during.tries >$out/during.tries
wait
mw auto-verify verify $target dirty.img
