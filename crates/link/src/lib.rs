//! What a crossing costs: PCIe, and the two ledgers
