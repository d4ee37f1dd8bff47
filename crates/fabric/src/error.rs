//! What can go wrong, in words that say what to do next.

use std::ffi::CStr;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// There is no libfabric.
    #[error("libfabric cannot be loaded ({0}); install it (Debian, Ubuntu: libfabric1)")]
    Missing(String),
    /// It lacks a function.
    #[error("libfabric has no {0}; it is too old")]
    Function(&'static str),
    /// Sluice itself, or what stands for it.
    #[error("a rail of Sluice cannot be Sluice itself ({0})")]
    Itself(String),
    /// There is no such provider.
    #[error(
        "libfabric has no provider {provider} that sends reliable messages here{filter}; \
         fi_info -t FI_EP_RDM lists those that it has"
    )]
    NoProvider {
        /// Which was asked for.
        provider: String,
        /// What hides it, perhaps.
        filter: String,
    },
    /// A call has failed.
    #[error("{call}: {text}")]
    Call {
        /// Which.
        call: &'static str,
        /// Its code, positive.
        code: i32,
        /// What libfabric says of that.
        text: String,
    },
}

impl FabricError {
    /// Of a call that has returned this, as [`Ok`] if it is no error.
    pub(crate) fn check(call: &'static str, returned: isize) -> Result<usize, FabricError> {
        usize::try_from(returned).map_err(|_| FabricError::of(call, -returned))
    }

    /// Whether an operation was taken back by who began it.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, FabricError::Call { code, .. } if *code == crate::ffi::FI_ECANCELED)
    }

    /// Of a positive code.
    pub(crate) fn of(call: &'static str, code: isize) -> FabricError {
        let code = i32::try_from(code).unwrap_or(i32::MAX);
        let text = crate::library::Library::get().map(|library| {
            // SAFETY: it returns a text that stays, for any number.
            let text = unsafe { CStr::from_ptr((library.strerror)(code)) };
            text.to_string_lossy().into_owned()
        });
        FabricError::Call { call, code, text: text.unwrap_or_else(|_| format!("error {code}")) }
    }
}
