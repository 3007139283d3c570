//! Seven sticks as `sim:` models, made from figures that were published about real devices
//! (docs/championship.md says which). They model what was measured there, with the rhythm and the
//! noise that the text describes; they are no measurement of those products.
//!
//! Rates are those at a 5 Gbit/s port; three of them at 10 Gbit/s have a model of their own.

/// A model.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// The word behind `sim:`.
    pub name: &'static str,
    /// What it is a model of.
    pub title: &'static str,
    /// Its keys, as a person could type them.
    pub spec: &'static str,
}

const fn model(name: &'static str, title: &'static str, spec: &'static str) -> Model {
    Model { name, title, spec }
}

/// All models.
pub const MODELS: [Model; 10] = [
    model(
        "exceria-g2",
        "KIOXIA EXCERIA G2 500 GB in an NVMe case (model)",
        "500107862016,data=no,link=5000,write_rate=354MiB/s,read_rate=376MiB/s,noise=1%",
    ),
    model(
        "exceria-g2-10g",
        "KIOXIA EXCERIA G2 500 GB in an NVMe case (model)",
        "500107862016,data=no,link=10000,write_rate=890MiB/s,read_rate=930MiB/s,noise=1%",
    ),
    model(
        "sspe-usc250",
        "I-O DATA SSPE-USC250 (model)",
        "256060514304,data=no,link=5000,cache=14440MiB,cached_rate=361MiB/s,write_rate=290MiB/s,\
         read_rate=365MiB/s,noise=2%,spinup=900ms",
    ),
    model(
        "sspe-usc250-10g",
        "I-O DATA SSPE-USC250 (model)",
        "256060514304,data=no,link=10000,cache=14440MiB,cached_rate=447MiB/s,write_rate=290MiB/s,\
         read_rate=480MiB/s,noise=2%",
    ),
    model(
        "ssd-put250",
        "BUFFALO SSD-PUT250U3-BKC (model)",
        "256060514304,data=no,link=5000,cache=18000MiB,cached_rate=358MiB/s,write_rate=127MiB/s,\
         read_rate=356MiB/s,noise=2%,spinup=600ms",
    ),
    model(
        "esd-ema",
        "ELECOM ESD-EMA0250GBK (model)",
        "256060514304,data=no,link=5000,cache=68.3GB,cached_rate=324MiB/s,write_rate=62MiB/s,\
         period=20s,low=13s,low_rate=9MiB/s,read_rate=370MiB/s,noise=3%",
    ),
    model(
        "esd-ema-10g",
        "ELECOM ESD-EMA0250GBK (model)",
        "256060514304,data=no,link=10000,cache=68.3GB,cached_rate=434MiB/s,write_rate=62MiB/s,\
         period=20s,low=13s,low_rate=9MiB/s,read_rate=470MiB/s,noise=3%",
    ),
    model(
        "esd-emc",
        "ELECOM ESD-EMC0250GBK (model)",
        "256060514304,data=no,link=5000,cache=4.7GB,cached_rate=345MiB/s,write_rate=81MiB/s,\
         read_rate=349MiB/s,noise=2%",
    ),
    model(
        "ts32gjf790",
        "Transcend TS32GJF790K (model)",
        "32010928128,data=no,discard=no,link=5000,write_rate=33MiB/s,stalled=44%,noise=40%,\
         read_rate=103494452",
    ),
    model(
        "nus-ma32g",
        "Nextorage NUS-MA32G in a card reader (model)",
        "31914983424,data=no,discard=no,link=5000,write_rate=79586918,read_rate=93MiB/s,noise=2%",
    ),
];

/// The model of that name.
pub fn find(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}

#[cfg(test)]
mod tests {
    use super::super::spec::parse;
    use super::*;

    #[test]
    fn every_model_is_a_spec_and_takes_more_keys() {
        for model in &MODELS {
            let spec = parse(model.name).unwrap_or_else(|why| panic!("{}: {why}", model.name));
            assert!(!spec.data && spec.speed.write > 0.0 && spec.link.is_some());
            assert_eq!(spec.model.as_deref(), Some(model.title));
            assert!(parse(&format!("{},latency=1ms", model.name)).is_ok());
            assert!(parse(model.spec).is_ok());
        }
        assert_eq!(MODELS.iter().filter(|model| !model.name.ends_with("-10g")).count(), 7);
    }
}
