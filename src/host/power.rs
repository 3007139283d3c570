//! Holds the performance power profile while something is measured, so that two runs are made
//! under the same conditions. power-profiles-daemon ends a hold when it is released or when the
//! connection that asked for it closes, so a crash releases it too.
//!
//! Source: D-Bus interface `org.freedesktop.UPower.PowerProfiles` of power-profiles-daemon 0.23;
//! before 0.20 it was called `net.hadess.PowerProfiles`. tuned-ppd has the same interface.

use super::bus::{self, Method, Reply};

/// The two names, the present one first.
const HOLDS: [Method; 2] = [
    Method {
        service: "org.freedesktop.UPower.PowerProfiles",
        object: "/org/freedesktop/UPower/PowerProfiles",
        interface: "org.freedesktop.UPower.PowerProfiles",
        name: "HoldProfile",
    },
    Method {
        service: "net.hadess.PowerProfiles",
        object: "/net/hadess/PowerProfiles",
        interface: "net.hadess.PowerProfiles",
        name: "HoldProfile",
    },
];

/// While this lives the profile is held.
#[derive(Debug)]
pub struct Held {
    /// Closing the connection ends the hold.
    _reply: Reply,
}

/// Asks for the performance profile; `why` is what `powerprofilesctl list-holds` shows. The text
/// says why it is not held: a job goes on without.
pub fn hold_performance(why: &str) -> (Option<Held>, Option<String>) {
    let socket = match bus::system_bus() {
        Ok(socket) => socket,
        Err(why_not) => return (None, Some(why_not)),
    };
    let mut reasons = Vec::new();
    for method in HOLDS {
        let body = ("performance", why.to_owned(), "mediawriter");
        match bus::call(&socket, method, body) {
            Ok(reply) => return (Some(Held { _reply: reply }), None),
            Err(reason) => reasons.push(reason),
        }
    }
    (None, reasons.into_iter().next())
}
