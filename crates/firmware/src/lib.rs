//! What is decided: named work on handles; the flash translation layer
