# What the scripts of all guests share; put in front of each of them. Results go to /host/out, a file each.
out=/host/out
mkdir -p $out

# disk SERIAL: name of the disk of the USB device with this serial number
disk() {
  for d in /sys/bus/usb/devices/*; do
    [ "$(cat $d/serial 2>/dev/null)" != $1 ] || ls $d/*/host*/target*/*/block
  done 2>/dev/null
}

# until_ok SECONDS COMMAND...: tries it ten times a second
until_ok() {
  local tries=$(($1 * 10)); shift
  until "$@"; do
    tries=$((tries - 1)); [ $tries -gt 0 ] || { echo "gave up: $*" >&2; return 1; }
    sleep 0.1
  done
}

# tell FILE, await FILE: to and from the host
tell() { touch /host/$1; }
await() { until_ok 60 test -e /host/$1; }

uptime_s() { cut -d' ' -f1 /proc/uptime; }

# mw NAME ARGS...: runs the program and keeps what it says (NAME.out, NAME.err) and how it ends (NAME.rc)
mw() {
  local name=$1; shift
  timeout 200 /host/mediawriter "$@" >$out/$name.out 2>$out/$name.err </dev/null
  echo $? >$out/$name.rc.new; mv $out/$name.rc.new $out/$name.rc
}

# flash NAME SOURCE DISK ARGS...: with record (NAME.json) and log (NAME.csv)
flash() {
  local name=$1 source=$2 disk=$3; shift 3
  mw $name flash $source $disk --yes --record $out/$name.json --log $out/$name.csv "$@"
}

# rows NAME PHASE N: whether the log has that many rows of a phase
rows() { [ "$(cat $out/$1.csv 2>/dev/null | grep -c "^$2,")" -ge $3 ]; }
