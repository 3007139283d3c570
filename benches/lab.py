"""lab.py: what the scripts of this folder share: a lab in /dev/shm with its loop devices, commands
that are measured, rounds in which programs take turns, the report, the frame of a script.

A loop device is made here or it is not written to; all are detached at the end, also after a
failure or a signal.
"""
import argparse
import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GIB = 1 << 30
MIB = 1 << 20


def stop(message):
    sys.exit(f"benches/{os.path.basename(sys.argv[0])}: {message}")


def say(message):
    print(message, file=sys.stderr, flush=True)


def load():
    return os.getloadavg()[0]


def ticks():
    """Processor time of everybody since the start, and how much of it was idle (proc_stat(5))."""
    with open("/proc/stat", encoding="ascii") as file:
        spent = [int(field) for field in file.readline().split()[1:9]]
    return sum(spent), spent[3] + spent[4]


def busy():
    """The share of the processors' time that is used now, in percent."""
    start = ticks()
    time.sleep(1)
    end = ticks()
    return round(100 - 100 * (end[1] - start[1]) / max(1, end[0] - start[0]))


def quiet(patience):
    """Waits for an idle machine; how busy it is in the end, in percent."""
    until = time.monotonic() + patience
    while (now := busy()) > 10 and time.monotonic() < until:
        pass
    return now


def adopt(orphans):
    """Whether children of ended children become ours, so that their processor time counts:
    caligula leaves its writer process behind (PR_SET_CHILD_SUBREAPER, prctl(2))."""
    ctypes.CDLL(None).prctl(36, int(orphans), 0, 0, 0)


class Lab:
    """A folder in /dev/shm and the loop devices made here. Takes everything away again."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="mediawriter-bench.", dir="/dev/shm")
        self.loops = []
        self.sticks = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for device in self.sticks:
            subprocess.run([f"{ROOT}/tests/lab/stick", "stop", device], check=False)
        for device in self.loops:
            subprocess.run(["losetup", "--detach", device], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def zeros(self, name, size):
        with open(self.path(name), "wb") as file:
            file.truncate(size)
        return self.path(name)

    def random(self, name, size):
        with open("/dev/urandom", "rb") as noise, open(self.path(name), "wb") as file:
            for _ in range(size // MIB):
                file.write(noise.read(MIB))
        return self.path(name)

    def loop(self, name, size):
        command = ["losetup", "--find", "--show", "--direct-io=on", self.zeros(name, size)]
        device = output(command).strip()
        self.loops.append(device)
        return device

    def stick(self, *model):
        device = output([f"{ROOT}/tests/lab/stick", "start", *model]).strip()
        self.sticks.append(device)
        return device

    def drop(self, device, name):
        """Gives a loop device and its file's memory back before the end."""
        subprocess.run(["losetup", "--detach", device], check=True)
        self.loops.remove(device)
        os.remove(self.path(name))


def output(command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def orphans_time():
    """Waits for adopted children; their processor seconds."""
    spent = 0.0
    try:
        while True:
            usage = os.wait4(-1, 0)[2]
            spent += usage.ru_utime + usage.ru_stime
    except ChildProcessError:
        return spent


def measured(command, orphans=False):
    """Runs a command (a shell line when it is text): seconds, processor seconds, peak bytes."""
    argv = ["sh", "-ec", command] if isinstance(command, str) else command
    # A file, not a pipe: the end of a pipe comes when the last orphan is gone.
    with tempfile.TemporaryFile("w+") as out:
        start = time.monotonic()
        child = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        took = time.monotonic() - start
        out.seek(0)
        said = out.read()
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        stop(f"{argv} returned {child.returncode}: {said}")
    cpu = usage.ru_utime + usage.ru_stime + (orphans_time() if orphans else 0)
    return {"seconds": took, "cpu": cpu, "peak": usage.ru_maxrss * 1024, "said": said}


def tools(names):
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        stop(f"missing: {', '.join(missing)} (see the header)")


def room(needed):
    """/dev/shm is memory: both must have it."""
    fs = os.statvfs("/dev/shm")
    free = fs.f_bavail * fs.f_frsize
    with open("/proc/meminfo", encoding="ascii") as file:
        facts = dict(line.split(":") for line in file)
    memory = int(facts["MemAvailable"].split()[0]) * 1024
    have = min(free, memory)
    if have < needed + GIB:
        stop(f"{(needed + GIB) / GIB:.1f} GiB of free memory in /dev/shm are needed, "
             f"{have / GIB:.1f} are there; see --help")


def build(*benches):
    """Builds of the program and of baselines as packages have them (profile `dist`), by name; their paths come from cargo.
    MEDIAWRITER=path stands for the program, which is then not built."""
    own = os.environ.get("MEDIAWRITER")
    found = {"mediawriter": own} if own else {}
    wanted = [] if own else ["--bin", "mediawriter"]
    for bench in benches:
        wanted += ["--bench", bench]
    if wanted:
        say("building ...")
        said = output(["cargo", "build", "--profile", "dist", "--quiet", "--message-format=json",
                       "--manifest-path", f"{ROOT}/Cargo.toml", *wanted])
        messages = [json.loads(line) for line in said.splitlines()]
        found |= {m["target"]["name"]: m["executable"] for m in messages if m.get("executable")}
    return found


class Report:
    """Rows of the table, and whether what was wanted holds."""

    def __init__(self):
        self.rows = []
        self.raw = {}
        self.missed = []

    def row(self, what, value, wanted, holds):
        verdict = "" if holds is None else "yes" if holds else "**no**"
        self.rows.append(f"| {what} | {value} | {wanted} | {verdict} |")
        if holds is False:
            self.missed.append(what)

    def at_most(self, what, value, limit, unit=""):
        self.row(what, f"{value:.3f}{unit}", f"at most {limit:.2f}{unit}", value <= limit)

    def at_least(self, what, value, limit):
        self.row(what, f"{value:.3f}", f"at least {limit:.2f}", value >= limit)

    def left_out(self, what, why):
        say(f"{what}: left out: {why}")
        self.row(what, f"left out: {why}", "-", None)

    def show(self):
        print("| what | measured | wanted | holds |\n|---|---|---|---|")
        print("\n".join(self.rows))
        print("\nRaw numbers, in the order of the rounds:\n\n```")
        for name, values in self.raw.items():
            print(f"{name:<44} {values}")
        print("```")


def flash_command(program, image, device, *more):
    """`--force`, because a loop device is no stick."""
    return [program, "flash", "--yes", "--force", "--discard", "never", "--quiet", *more, image,
            device]


def rounds(args, commands, before, after=lambda name: {}):
    """Runs the commands in turn, after one round that does not count. What `after` returns is
    added to the result."""
    results = {name: [] for name in commands}
    loads = []
    for number in range(args.runs + 1):
        loads.append(f"{quiet(args.patience if number else 0)} %")
        say(f"round {number} of {args.runs}, processors {loads[-1]} busy, load {load():.2f}")
        for name, command in commands.items():
            before()
            result = measured(command, orphans=True)
            result |= after(name)
            if number:
                results[name].append(result)
    return results, loads[1:]


def ratio(results, one, other, field="seconds"):
    pairs = zip(results[one], results[other])
    return statistics.median(a[field] / b[field] for a, b in pairs)


def median(results, name, field):
    return statistics.median(result[field] for result in results[name])


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        facts = [line.split(":", 1) for line in file if ":" in line]
    names = [value.strip() for key, value in facts if key.strip() == "model name"]
    flags = next((value.split() for key, value in facts if key.strip() == "flags"), [])
    sha = "with" if "sha_ni" in flags else "without"
    return (f"{len(names)} x {names[0] if names else os.uname().machine}, {sha} SHA extensions; "
            f"Linux {os.uname().release}; load {load():.2f}")


def run(doc, parts, options, prepare):
    """The main function of a script: reads its arguments, measures its parts in their order,
    prints the report. `parts` are functions by name, `options` further arguments as (flag, type,
    default, help); `prepare` gets the arguments before anything is measured."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(parts), help="parts, separated by commas")
    parser.add_argument("--runs", type=int, default=5)
    for flag, kind, default, text in options:
        parser.add_argument(flag, type=kind, default=default, help=text)
    parser.add_argument("--patience", type=int, default=60, help="seconds to wait for quiet")
    args = parser.parse_args()
    chosen = args.only.split(",")
    unknown = [part for part in chosen if part not in parts]
    if unknown:
        stop(f"no part {', '.join(unknown)}; there are {', '.join(parts)}")
    if os.geteuid() != 0:
        stop("run as root: it attaches loop devices")
    tools(["losetup", "blockdev", "cargo"])
    prepare(args)
    # A signal ends it like an exception, so that the lab is taken away.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    report = Report()
    print(f"{machine()}\n", flush=True)
    with Lab() as lab:
        for name, part in parts.items():
            if name in chosen:
                say(f"{name}:")
                part(args, lab, report)
    report.show()
    sys.exit(1 if report.missed else 0)
