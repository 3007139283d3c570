#!/usr/bin/env python3
"""terminal.py STEP... -- PROGRAM ARG...: runs a program on a terminal of its own and says, as JSON, what it showed,
how it ended (128 + N after signal N) and whether the terminal's settings are those of before.

wait:TEXT      until TEXT was shown, for a minute at most; what was shown before an earlier step does not count
type:TEXT      types TEXT and the return key
keys:TEXT      types TEXT alone, in which \\t and \\x03 are keys as well
signal:NAME    sends SIGNAME to the program
run:COMMAND    runs COMMAND in a shell
sleep:MILLIS   waits

The terminal has 100 columns, or as many as TERMINAL_COLUMNS says.
"""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

split = sys.argv.index("--")
steps, command = sys.argv[1:split], sys.argv[split + 1:]

master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, int(os.environ.get("TERMINAL_COLUMNS", 100)), 0, 0))
before = termios.tcgetattr(slave)


def own_terminal():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


child = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, preexec_fn=own_terminal)
shown, looked_at = b"", 0


def read(seconds):
    """Takes in what was shown; False when nothing came."""
    global shown
    if not select.select([master], [], [], seconds)[0]:
        return False
    data = os.read(master, 65536)
    shown += data
    return bool(data)


done = 0
for step in steps:
    kind, _, text = step.partition(":")
    if kind == "wait":
        deadline = time.monotonic() + 60
        while text.encode() not in shown[looked_at:]:
            if time.monotonic() > deadline or child.poll() is not None and not read(0.1):
                break
            read(0.1)
        at = shown.find(text.encode(), looked_at)
        if at < 0:
            break
        looked_at = at + len(text)
    elif kind == "type":
        os.write(master, text.encode() + b"\n")
    elif kind == "keys":
        os.write(master, text.encode().decode("unicode_escape").encode())
    elif kind == "signal":
        child.send_signal(getattr(signal, "SIG" + text))
    elif kind == "run":
        subprocess.run(["sh", "-c", text], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    elif kind == "sleep":
        time.sleep(int(text) / 1000)
    else:
        raise SystemExit(f"unknown step {step}")
    done += 1
deadline = time.monotonic() + 60
while child.poll() is None:
    read(0.05)
    if time.monotonic() > deadline:
        child.kill()
while read(0.05):
    pass
code = child.returncode
print(json.dumps({
    "output": shown.decode("utf-8", "replace"),
    "code": 128 - code if code < 0 else code,
    "settings_kept": termios.tcgetattr(slave) == before,
    "steps_done": done,
}))
