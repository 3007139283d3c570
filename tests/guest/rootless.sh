# Users without root, with the real udisks2, polkit and udev: ada may open sticks, bob would have to give a password, and
# the disk of the system is for nobody.
PATH=$PATH:/usr/bin:/usr/sbin
tar -xf /host/root.tar -C / && start-udisks >$out/start 2>&1 || { cat $out/start; exit 1; }
stick=/dev/$(disk STICK) system=/dev/$(disk SYSTEM) ssd=/dev/$(disk SSD) built=/dev/vda
echo $stick >$out/stick.name; echo $ssd >$out/ssd.name
cp small.img /tmp/small.img; chmod 644 /tmp/small.img

# as USER NAME ARGS...: as mw does, without any rights
as() {
  local user=$1 name=$2 id; shift 2
  id=$(id -u $user)
  timeout 200 /usr/bin/setpriv --reuid $id --regid $id --clear-groups --inh-caps=-all env HOME=/home/$user \
    XDG_STATE_HOME=/home/$user PATH=/bin:/sbin /host/mediawriter "$@" >$out/$name.out 2>$out/$name.err </dev/null
  echo $? >$out/$name.rc
}
# parts DISK: the partitions of it that the kernel knows
parts() { grep -c "${1#/dev/}[0-9]" /proc/partitions; }

sha256sum <$built >$out/built.before
parts $stick >$out/parts.before
as ada devices devices --all
as ada flash flash /tmp/small.img $stick --yes --record /home/ada/flash.json
cp /home/ada/flash.json $out/flash.json
until_ok 20 test "$(parts $stick)" -gt 0  # udev reads the table when the stick is closed
parts $stick >$out/parts.after
as ada verify verify $stick /tmp/small.img
as ada bench bench $stick --size 1MiB --runtime 1s

# the disk of the system: ours to refuse, and polkit's
mkfs.ext4 -q -F $built; mkdir -p /boot; mount $built /boot
as ada system flash /tmp/small.img $built --yes --force --unmount
umount /boot; sha256sum <$built >$out/built.before
as ada fixed flash /tmp/small.img $built --yes
as ada polkit flash /tmp/small.img $built --yes --force
as ada polkit-read verify $built /tmp/small.img
sha256sum <$built >$out/built.after

as bob bob flash /tmp/small.img $stick --yes

# something on the stick that somebody else mounted
sfdisk -q $ssd <<TABLE
,16M
TABLE
udevadm settle; mkfs.ext4 -q -F ${ssd}1; udevadm settle
mkdir -p /mnt/stick; mount ${ssd}1 /mnt/stick
until_ok 20 sh -c "udisksctl info -b ${ssd}1 | grep -q MountPoints.*/mnt/stick"
as ada mounted flash /tmp/small.img $ssd --yes
as bob bob-mounted flash /tmp/small.img $ssd --yes --unmount
as ada unmount flash /tmp/small.img $ssd --yes --unmount --json
as ada discard discard $ssd --yes
stat -c %b /host/ssd.img >$out/ssd.blocks
as ada eject flash /tmp/small.img $stick --yes --eject

kill $(cat /run/udisksd.pid); sleep 1
as ada alone flash /tmp/small.img $ssd --yes
cat /tmp/polkitd.log /tmp/udisksd.log >$out/daemons.log 2>&1
