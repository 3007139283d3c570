# Install media of Windows on a UAS disk, and on a stick of which a desktop mounts every partition that it sees.
uas=/dev/$(disk UAS) stick=/dev/$(disk STICK)
flash uas small.iso $uas
mw uas-verify verify $uas small.iso

# B95: the kernel's own messages start the mounter, as they start udisks. It tries for two seconds, because the disk
# may still be held when the message comes.
sfdisk -q $stick <<TABLE
,,c
TABLE
mkfs.vfat ${stick}1 >/dev/null
mkdir -p /mnt/auto
cat >/tmp/mounter <<'MOUNTER'
#!/bin/sh
case $ACTION:$DEVTYPE:$DEVNAME in add:partition:$STICK*|change:partition:$STICK*) ;; *) exit ;; esac
(
  echo "$ACTION $DEVNAME" >>/tmp/seen
  n=0
  while [ $n -lt 20 ]; do
    grep -q " /mnt/auto " /proc/mounts && exit
    mount -t vfat /dev/$DEVNAME /mnt/auto 2>/dev/null && { echo $DEVNAME >>/tmp/mounted; exit; }
    n=$((n + 1)); sleep 0.1
  done
) &
MOUNTER
chmod +x /tmp/mounter
STICK=${stick#/dev/} busybox uevent /tmp/mounter &
mounter=$!
sleep 0.5
echo add >/sys/block/${stick#/dev/}/${stick#/dev/}1/uevent
until_ok 20 test -e /tmp/mounted
mounted() { grep -q " /mnt/auto " /proc/mounts; }
# held by the desktop, and so refused as long as nobody says otherwise
mw held flash tiny.iso $stick --yes
for n in 1 2 3 4 5 6 7 8 9 10; do
  flash made$n tiny.iso $stick --unmount
  until_ok 20 mounted
  [ -f /mnt/auto/efi/boot/bootx64.efi ] && echo $n >>$out/files
done
umount /mnt/auto
kill $mounter
cp /tmp/mounted $out/mounted
cp /tmp/seen $out/seen
