# Throttled sticks are measured, with more memory than the tests are long.
plain=$(disk PLAIN) old=$(disk OLD)
# B96: a short test on a slow stick
mw plain bench /dev/$plain --profile image --size 32MiB --destructive --yes --record $out/plain.json
# a disk on a USB 2 port
mw old bench /dev/$old --profile read --size 64MiB --yes --record $out/old.json
