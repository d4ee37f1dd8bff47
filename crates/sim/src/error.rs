//! What can be wrong with a configuration.

/// A configuration that cannot be simulated, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct ConfigError {
    /// The key at fault, as in the TOML file: `flow.slots`.
    pub key: String,
    /// What is wrong with it and what would be right.
    pub reason: String,
}

impl ConfigError {
    /// An error of this key.
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> ConfigError {
        ConfigError { key: key.into(), reason: reason.into() }
    }
}
