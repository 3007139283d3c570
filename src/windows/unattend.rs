//! Answer files for Windows Setup: what was asked for becomes `autounattend.xml`.
//!
//! Owns: the passes, components and elements, in the order of Microsoft's documentation (Unattended
//! Windows Setup Reference), and the check of an account's name. There is no option here that
//! touches a disk of the computer, and none may be added. Must not write files.

mod region;

use std::fmt::Write as _;

use crate::error::{Error, Result};
use crate::text::printable;

pub use region::{locale_of, windows_zone, zone_of};

/// Where Setup looks on its own.
pub const ROOT: &str = "autounattend.xml";
/// Where it is looked for later: Setup carries the file in the root over to the new system only
/// when it has a windowsPE pass.
pub const PANTHER: &str = "sources/$OEM$/$$/Panther/unattend.xml";

/// The processor that the disc is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// 64-bit PCs.
    Amd64,
    /// 64-bit ARM.
    Arm64,
    /// 32-bit PCs.
    X86,
}

impl Arch {
    fn word(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
            Self::X86 => "x86",
        }
    }
}

/// What Setup is to be told; nothing by default.
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line, one each")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Do not ask for a TPM, Secure Boot and 4 GiB of memory.
    pub bypass_checks: bool,
    /// A local account of this name, without a password until it first logs on.
    pub account: Option<String>,
    /// Do not insist on an account with Microsoft.
    pub no_online_account: bool,
    /// No questions about data collection, all answered with no.
    pub no_data_collection: bool,
    /// Language and region of formats and keyboard, as `de-AT` or `de_AT.UTF-8`.
    pub locale: Option<String>,
    /// `Europe/Vienna`, or Windows' own name of a zone.
    pub zone: Option<String>,
    /// Do not encrypt the computer's disk unasked.
    pub no_bitlocker: bool,
}

/// An answer file and its place on the stick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// [`ROOT`] or [`PANTHER`].
    pub path: &'static str,
    /// Its text.
    pub xml: String,
}

/// The answer file for these options; `None`: nothing is asked for.
pub fn answers(options: &Options, arch: Arch) -> Result<Option<Answers>> {
    if *options == Options::default() {
        return Ok(None);
    }
    let mut xml = Xml::new(arch);
    if options.bypass_checks {
        windows_pe(&mut xml);
    }
    if options.no_online_account {
        specialize(&mut xml);
    }
    oobe(&mut xml, options)?;
    let path = if options.bypass_checks { ROOT } else { PANTHER };
    Ok(Some(Answers { path, xml: xml.finish() }))
}

/// Text that grows by elements.
struct Xml {
    text: String,
    arch: Arch,
    open: Vec<&'static str>,
}

impl Xml {
    fn new(arch: Arch) -> Self {
        let text = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
             <!-- Added by mediawriter. -->\n\
             <unattend xmlns=\"urn:schemas-microsoft-com:unattend\" \
             xmlns:wcm=\"http://schemas.microsoft.com/WMIConfig/2002/State\">\n";
        Self { text: text.to_owned(), arch, open: Vec::new() }
    }

    fn indent(&mut self) {
        for _ in 0..=self.open.len() {
            self.text.push_str("  ");
        }
    }

    fn begin(&mut self, name: &'static str, attributes: &str) {
        self.indent();
        // A String takes every write.
        writeln!(self.text, "<{name}{attributes}>").ok();
        self.open.push(name);
    }

    fn end(&mut self) {
        if let Some(name) = self.open.pop() {
            self.indent();
            writeln!(self.text, "</{name}>").ok();
        }
    }

    fn leaf(&mut self, name: &str, value: &str) {
        self.indent();
        writeln!(self.text, "<{name}>{}</{name}>", escape(value)).ok();
    }

    fn pass(&mut self, name: &str) {
        self.begin("settings", &format!(" pass=\"{name}\""));
    }

    fn component(&mut self, name: &str) {
        let arch = self.arch.word();
        self.begin(
            "component",
            &format!(
                " name=\"{name}\" processorArchitecture=\"{arch}\" \
                 publicKeyToken=\"31bf3856ad364e35\" language=\"neutral\" versionScope=\"nonSxS\""
            ),
        );
    }

    /// Commands that run one after the other.
    fn commands(&mut self, commands: &[&str]) {
        self.begin("RunSynchronous", "");
        for (command, order) in commands.iter().zip(1..) {
            self.begin("RunSynchronousCommand", " wcm:action=\"add\"");
            self.leaf("Order", &format!("{order}"));
            self.leaf("Path", command);
            self.end();
        }
        self.end();
    }

    fn finish(mut self) -> String {
        self.text.push_str("</unattend>\n");
        self.text
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            _ => out.push(c),
        }
    }
    out
}

fn windows_pe(xml: &mut Xml) {
    let command = |name: &str| {
        format!("reg add HKLM\\SYSTEM\\Setup\\LabConfig /v {name} /t REG_DWORD /d 1 /f")
    };
    let commands = ["BypassTPMCheck", "BypassSecureBootCheck", "BypassRAMCheck"].map(command);
    xml.pass("windowsPE");
    xml.component("Microsoft-Windows-Setup");
    xml.commands(&[&commands[0], &commands[1], &commands[2]]);
    // With an answer file of this pass, Setup wants these two as well. The empty key keeps the
    // question for the edition.
    xml.begin("UserData", "");
    xml.leaf("AcceptEula", "true");
    xml.begin("ProductKey", "");
    xml.leaf("Key", "");
    xml.end();
    xml.end();
    xml.end();
    xml.end();
}

fn specialize(xml: &mut Xml) {
    xml.pass("specialize");
    xml.component("Microsoft-Windows-Deployment");
    xml.commands(&["reg add HKLM\\SOFTWARE\\Microsoft\\Windows\\CurrentVersion\\OOBE \
                    /v BypassNRO /t REG_DWORD /d 1 /f"]);
    xml.end();
    xml.end();
}

fn oobe(xml: &mut Xml, options: &Options) -> Result<()> {
    let account = options.account.as_deref().map(account_name).transpose()?;
    let locale = options.locale.as_deref().map(locale).transpose()?;
    let zone = options.zone.as_deref().map(zone).transpose()?;
    let shell = account.is_some() || zone.is_some() || options.no_data_collection;
    if !shell && locale.is_none() && !options.no_bitlocker {
        return Ok(());
    }
    xml.pass("oobeSystem");
    if options.no_bitlocker {
        xml.component("Microsoft-Windows-EnhancedStorage-Adm");
        xml.leaf("TCGSecurityActivationDisabled", "1");
        xml.end();
    }
    if let Some(locale) = locale {
        xml.component("Microsoft-Windows-International-Core");
        xml.leaf("InputLocale", &region::keyboard(&locale));
        xml.leaf("SystemLocale", &locale);
        xml.leaf("UserLocale", &locale);
        xml.end();
    }
    if options.no_bitlocker {
        xml.component("Microsoft-Windows-SecureStartup-FilterDriver");
        xml.leaf("PreventDeviceEncryption", "true");
        xml.end();
    }
    if shell {
        xml.component("Microsoft-Windows-Shell-Setup");
        shell_setup(xml, account, zone, options.no_data_collection);
        xml.end();
    }
    xml.end();
    Ok(())
}

fn shell_setup(xml: &mut Xml, account: Option<&str>, zone: Option<String>, private: bool) {
    if let Some(name) = account {
        xml.begin("FirstLogonCommands", "");
        xml.begin("SynchronousCommand", " wcm:action=\"add\"");
        xml.leaf("CommandLine", &format!("net user \"{name}\" /logonpasswordchg:yes"));
        xml.leaf("Order", "1");
        xml.end();
        xml.end();
    }
    if private {
        xml.begin("OOBE", "");
        xml.leaf("HideEULAPage", "true");
        // 3: no recommended settings, so no data beyond what is required.
        xml.leaf("ProtectYourPC", "3");
        xml.end();
    }
    if let Some(zone) = zone {
        xml.leaf("TimeZone", &zone);
    }
    if let Some(name) = account {
        xml.begin("UserAccounts", "");
        xml.begin("LocalAccounts", "");
        xml.begin("LocalAccount", " wcm:action=\"add\"");
        xml.begin("Password", "");
        xml.leaf("Value", "");
        xml.leaf("PlainText", "true");
        xml.end();
        xml.leaf("DisplayName", name);
        xml.leaf("Group", "Administrators");
        xml.leaf("Name", name);
        for _ in 0..3 {
            xml.end();
        }
    }
}

/// Names that Windows has for itself.
const RESERVED: &[&str] = &[
    "administrator",
    "guest",
    "defaultaccount",
    "wdagutilityaccount",
    "helpassistant",
    "krbtgt",
    "local",
    "none",
    "system",
    "service",
    "network service",
    "local service",
    "everyone",
    "anonymous",
    "batch",
    "dialup",
    "interactive",
    "internet",
    "network",
    "proxy",
    "restricted",
    "self",
    "users",
    "administrators",
];

/// A name that Windows takes for a local account.
fn account_name(name: &str) -> Result<&str> {
    let shown = printable(name);
    let bad = |why: &str| Error::usage(format!("the account name '{shown}' {why}"));
    if name.trim() != name || name.is_empty() {
        return Err(bad("is empty, or begins or ends with a space"));
    }
    if name.encode_utf16().count() > 20 {
        return Err(bad("has more than 20 characters"));
    }
    let illegal = |c: char| c.is_control() || "/\\[]:;|=.,+*?<>@\"&%^".contains(c);
    if let Some(c) = name.chars().find(|c| illegal(*c) || crate::text::is_unsafe(*c)) {
        let c = printable(&c.to_string());
        return Err(bad(&format!("has the character '{c}', which Windows forbids there")));
    }
    let lower = name.to_lowercase();
    if RESERVED.contains(&lower.as_str()) || is_device(&lower) {
        return Err(bad("is one of Windows' own"));
    }
    Ok(name)
}

/// Names of devices: the folder of such a user could not be made.
fn is_device(lower: &str) -> bool {
    let port = lower.strip_prefix("com").or_else(|| lower.strip_prefix("lpt"));
    matches!(lower, "con" | "prn" | "aux" | "nul")
        || port.is_some_and(|number| matches!(number.as_bytes(), [b'1'..=b'9']))
}

fn locale(text: &str) -> Result<String> {
    locale_of(text).ok_or_else(|| {
        let text = printable(text);
        Error::usage(format!("'{text}' is no locale")).hint("write one like de-AT or en-US")
    })
}

fn zone(text: &str) -> Result<String> {
    let found = windows_zone(text).ok_or_else(|| {
        let text = printable(text);
        Error::usage(format!("no name of Windows is known for the time zone '{text}'"))
            .hint("write Windows' own name, such as 'W. Europe Standard Time'")
    })?;
    Ok(found.to_owned())
}

#[cfg(test)]
mod tests;
