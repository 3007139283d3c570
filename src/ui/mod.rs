//! Everything a person sees: screens, tables, logs.
pub mod devices;
