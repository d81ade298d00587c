//! What bytes look like: NVMe structures, PRP and SGL lists
