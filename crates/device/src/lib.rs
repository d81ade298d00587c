//! A drive: the NVMe controller, wired to firmware and flash by its profile
