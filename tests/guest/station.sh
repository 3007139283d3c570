# A station: sticks come and go while it runs.
start=$(disk START)
cp /sys/block/$start/stat $out/start.stat-before
# TERM, because a shell without job control has INT ignored in what it starts with `&`
(timeout 280 /host/mediawriter flash stick.img --all-matching 46f4:0001 --station --yes --json \
  --record $out/run.json >$out/station.out 2>$out/station.err </dev/null; echo $? >$out/station.rc.new
  mv $out/station.rc.new $out/station.rc) &
until_ok 60 grep -q "waits for 46f4:0001" $out/station.err
tell waiting

ended() { [ "$(grep -c '"event":"finished"' $out/station.out)" -ge $1 ]; }
await plugged
until_ok 30 eval '[ -n "$(disk OTHER)" ]'
other=$(disk OTHER)
cp /sys/block/$other/stat $out/other.stat-before
until_ok 120 ended 3
tell three
# the first is pulled out, and another one is plugged into its port
await fourth
until_ok 120 ended 4
cp /sys/block/$other/stat $out/other.stat-after
cp /sys/block/$start/stat $out/start.stat-after
kill -TERM $(pidof mediawriter)
until_ok 30 test -e $out/station.rc
