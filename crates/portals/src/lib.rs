//! The Portals 4 engine.
#![forbid(unsafe_code)]
