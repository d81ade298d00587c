//! Where bytes rest: geometry, channels, dies, timing, stores
