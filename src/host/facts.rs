//! What the computer is made of, for records: a speed means little without the machine that
//! measured it. The parsers are pure; [`HostFacts::read`] reads /proc and asks the kernel.
//!
//! Sources: uname(2), sysconf(3), Documentation/filesystems/proc.rst (meminfo); /proc/cpuinfo has
//! no specification, its keys are those of each architecture's `show_cpuinfo`.

use std::fs;

use nix::unistd::{SysconfVar, sysconf};
use serde::{Deserialize, Serialize};

/// The machine behind a record. `None` = the system does not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// Kernel release, e.g. `6.12.48+deb13-amd64`.
    pub kernel: Option<String>,
    /// Hardware name as uname gives it, e.g. `x86_64`.
    pub machine: Option<String>,
    /// Name of the processor.
    pub cpu: Option<String>,
    /// Logical processors this process may use, cgroup limits included.
    pub cores: Option<u64>,
    /// Usable memory in bytes.
    pub memory: Option<u64>,
    /// Bytes of a memory page.
    pub page_size: Option<u64>,
}

impl HostFacts {
    /// Asks this machine. Whatever cannot be found out stays `None`.
    pub fn read() -> Self {
        let uname = nix::sys::utsname::uname().ok();
        let text = |s: &std::ffi::OsStr| s.to_string_lossy().into_owned();
        Self {
            kernel: uname.as_ref().map(|u| text(u.release())),
            machine: uname.as_ref().map(|u| text(u.machine())),
            cpu: fs::read_to_string("/proc/cpuinfo").ok().and_then(|t| cpu_name(&t)),
            cores: std::thread::available_parallelism()
                .ok()
                .and_then(|n| u64::try_from(n.get()).ok()),
            memory: fs::read_to_string("/proc/meminfo").ok().and_then(|t| total_memory(&t)),
            page_size: sysconf(SysconfVar::PAGE_SIZE)
                .ok()
                .flatten()
                .and_then(|n| u64::try_from(n).ok()),
        }
    }
}

/// How the kernel chooses the processor's frequency (Documentation/admin-guide/pm/cpufreq.rst);
/// `None` where there is no choice, as in most virtual machines.
pub fn governor() -> Option<String> {
    let file = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

/// The processor's name from /proc/cpuinfo.
pub fn cpu_name(cpuinfo: &str) -> Option<String> {
    // x86 and 32-bit Arm; Raspberry Pi (the board); MIPS; POWER.
    for key in ["model name", "Model", "cpu model", "cpu"] {
        if let Some(name) = value(cpuinfo, key) {
            return Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    // 64-bit Arm gives numbers alone (arch/arm64/kernel/cpuinfo.c), RISC-V the instruction set.
    if let (Some(who), Some(part)) = (value(cpuinfo, "CPU implementer"), value(cpuinfo, "CPU part"))
    {
        return Some(format!("Arm implementer {who} part {part}"));
    }
    value(cpuinfo, "uarch").or_else(|| value(cpuinfo, "isa")).map(str::to_owned)
}

/// Bytes of `MemTotal` from /proc/meminfo, whose unit is always kB = 1024 bytes.
pub fn total_memory(meminfo: &str) -> Option<u64> {
    let kib: u64 = value(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The first non-empty value of `key : value` lines.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(k, v)| k.trim() == key && !v.trim().is_empty())
        .map(|(_, v)| v.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_has_a_name_on_every_architecture() {
        for (text, expected) in [
            (
                "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)  CPU @ 2.80GHz\n\nprocessor\t: 1\n",
                Some("Intel(R) Xeon(R) CPU @ 2.80GHz"),
            ),
            (
                "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n",
                Some("Raspberry Pi 4 Model B Rev 1.4"),
            ),
            (
                "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
                Some("Arm implementer 0x41 part 0xd0c"),
            ),
            (
                "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n",
                Some("POWER9, altivec supported"),
            ),
            ("processor\t: 0\nhart\t\t: 0\nisa\t\t: rv64imafdc\nmmu\t: sv39\n", Some("rv64imafdc")),
            ("processor\t: 0\nmodel name\t:\n", None),
            ("", None),
            ("no colon here", None),
        ] {
            assert_eq!(cpu_name(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn memory_is_parsed_or_unknown_never_guessed() {
        for (text, expected) in [
            ("MemTotal:        8048712 kB\nMemFree:  1 kB\n", Some(8_048_712 * 1024)),
            ("MemFree:  1 kB\n", None),
            ("MemTotal:        8048712 MB\n", None),
            ("MemTotal: -1 kB\n", None),
            ("MemTotal: 18446744073709551615 kB\n", None),
            ("", None),
        ] {
            assert_eq!(total_memory(text), expected, "{text:?}");
        }
    }

    #[test]
    fn this_machine_answers_and_its_answers_survive_json() {
        let facts = HostFacts::read();
        assert_eq!(
            facts.kernel,
            fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|s| s.trim().to_owned())
        );
        assert!(facts.page_size.is_some_and(|n| n.is_power_of_two() && n >= 4096), "{facts:?}");
        assert!(facts.memory.is_some_and(|n| n > 1 << 20), "{facts:?}");
        assert!(facts.cores.is_some_and(|n| n >= 1), "{facts:?}");
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<HostFacts>(&json).unwrap(), facts);
        assert_eq!(serde_json::from_str::<HostFacts>("{}").unwrap(), HostFacts::default());
    }
}
