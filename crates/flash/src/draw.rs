//! Draws that follow from what they are for, without a state: a number is mixed until its neighbours are unlike it.

/// The output of SplitMix64 for this state (Steele, Lea and Flood, 2014).
pub(crate) fn mixed(number: u64) -> u64 {
    let mut draw = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    draw = (draw ^ (draw >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    draw = (draw ^ (draw >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    draw ^ (draw >> 31)
}
