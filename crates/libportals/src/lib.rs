//! The C face of Portals 4.
