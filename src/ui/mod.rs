//! Everything a person or a script sees: tables, screens, logs. Facts and events come in, text
//! goes out; nothing here reads the system or decides.

pub mod devices;
