//! The shared-memory rail.
