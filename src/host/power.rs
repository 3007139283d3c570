//! Holds the performance power profile while something is measured, so that two runs are made
//! under the same conditions. power-profiles-daemon ends a hold when it is released or when the
//! connection that asked for it closes, so a crash releases it too.
//!
//! Source: D-Bus interface `org.freedesktop.UPower.PowerProfiles` of power-profiles-daemon 0.23;
//! before 0.20 it was called `net.hadess.PowerProfiles`. tuned-ppd has the same interface.

use std::path::Path;

use super::bus::{self, Method, Reply};

/// The two names, the present one first.
const HOLDS: [Method<'static>; 2] = [
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
/// says why it is not held: a job goes on without. Takes 2 s at most, nothing without D-Bus.
pub fn hold_performance(why: &str) -> (Option<Held>, Option<String>) {
    match bus::system_bus().and_then(|socket| hold_over(&socket, why)) {
        Ok(held) => (Some(held), None),
        Err(why_not) => (None, Some(why_not)),
    }
}

fn hold_over(socket: &Path, why: &str) -> Result<Held, String> {
    let [now, before] = HOLDS;
    let ask = |method| bus::call(socket, method, ("performance", why.to_owned(), "mediawriter"));
    let reply = ask(now).or_else(|reason| {
        // A bus that is silent or dead has no second name to offer.
        if reason.contains("ServiceUnknown") { ask(before) } else { Err(reason) }
    })?;
    Ok(Held { _reply: reply })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Sender};
    use std::time::Duration;

    use super::super::bus::lab::Bus;
    use super::*;
    use crate::time::{Clock as _, SystemClock};

    /// Stands for power-profiles-daemon: says who asked for what.
    struct Fake {
        asked: Sender<([String; 3], String)>,
    }

    #[expect(clippy::needless_pass_by_value, reason = "zbus wants it so")]
    #[zbus::interface(name = "org.freedesktop.UPower.PowerProfiles")]
    impl Fake {
        fn hold_profile(
            &self,
            #[zbus(header)] header: zbus::message::Header<'_>,
            profile: String,
            reason: String,
            application: String,
        ) -> u32 {
            let sender = header.sender().unwrap().to_string();
            self.asked.send(([profile, reason, application], sender)).unwrap();
            7
        }
    }

    #[test]
    fn the_profile_is_held_while_alive_and_released_on_drop() {
        let Some(bus) = Bus::start() else { return };
        let (asked, was_asked) = mpsc::channel();
        let builder =
            bus.builder().serve_at(HOLDS[0].object, Fake { asked }).name(HOLDS[0].service);
        let service = zbus::block_on(builder.build()).unwrap();
        let held = hold_over(&bus.socket, "measuring a medium").unwrap();
        let (words, sender) = was_asked.recv_timeout(Duration::from_secs(5)).unwrap();
        assert_eq!(words, ["performance", "measuring a medium", "mediawriter"]);
        // A hold lives as long as the connection that asked for it.
        let connected = || {
            let name = "org.freedesktop.DBus";
            let object = "/org/freedesktop/DBus";
            let call = service.call_method(Some(name), object, Some(name), "NameHasOwner", &sender);
            zbus::block_on(call).unwrap().body().deserialize::<bool>().unwrap()
        };
        assert!(connected());
        drop(held);
        let clock = SystemClock::start();
        while connected() {
            assert!(clock.now() < Duration::from_secs(5), "still held after drop");
        }
    }

    #[test]
    fn a_bus_without_the_service_says_so_at_once() {
        let Some(bus) = Bus::start() else { return };
        let clock = SystemClock::start();
        let why_not = hold_over(&bus.socket, "test").unwrap_err();
        assert!(why_not.contains("ServiceUnknown"), "{why_not}");
        assert!(clock.now() < Duration::from_secs(1), "{:?}", clock.now());
    }
}
