//! How the job stands, for whoever asked with SIGUSR1, where nothing else is shown (`--quiet`).

use super::Sink;
use super::view::View;
use crate::event::{Event, Observer};

/// Says one line when asked, and nothing else.
#[derive(Debug)]
pub struct StateScreen {
    sink: Sink,
    view: View,
}

impl StateScreen {
    /// On standard error.
    pub fn stderr() -> Self {
        Self { sink: Sink::stderr(), view: View::default() }
    }
}

impl Observer for StateScreen {
    fn on(&mut self, event: &Event) {
        self.view.on(event);
    }

    fn state(&mut self) {
        self.sink.line(&self.view.state());
    }
}
