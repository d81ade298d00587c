//! How a payload crosses: one file a method, host end and device end side by side
