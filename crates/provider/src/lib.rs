//! The libfabric provider.
