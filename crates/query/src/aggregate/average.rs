//! Division of a sum by a count, exact to the last digit of DuckDB's AVG.

/// Divides a sum of integers by `count`, and by 10^`scale` for decimals. DuckDB divides in x87's 80-bit format and then rounds to DOUBLE,
/// which differs from a division in DOUBLE; this function reproduces it with integers.
pub(super) fn average(sum: i128, count: u64, scale: u32) -> f64 {
    if sum == 0 {
        return 0.0;
    }
    let (a, a_exponent) = extended(sum.unsigned_abs());
    // Above 10^22 the power has no exact DOUBLE, and a sum of that many digits is not exact either.
    let (b, b_exponent) = match u128::from(count).checked_mul(10u128.pow(scale)) {
        Some(divisor) => extended(divisor),
        None => return sum as f64 / (count as f64 * 10u128.pow(scale) as f64),
    };
    // Both significands have their highest bit set, so the quotient has 64 or 65 bits.
    let (quotient, rest) = ((u128::from(a) << 64) / u128::from(b), (u128::from(a) << 64) % u128::from(b));
    // Two more bits for rounding: the next one of the quotient, and whether anything is left.
    let (half, left) = (2 * rest / u128::from(b), 2 * rest % u128::from(b));
    let (rounded, exponent) = extended(quotient << 2 | half << 1 | u128::from(left != 0));
    let exponent = exponent - 2 - 64 + a_exponent - b_exponent;
    let power = f64::from_bits(((1023 + exponent) as u64) << 52);
    (rounded as f64 * power).copysign(if sum < 0 { -1.0 } else { 1.0 })
}

/// Normalizes a nonzero number to 64 significant bits, rounded to nearest, ties to even. Returns the significand, whose highest bit is set,
/// and the exponent of the power of two that scales it.
fn extended(value: u128) -> (u64, i32) {
    let shift = 64 - value.leading_zeros() as i32;
    if shift <= 0 {
        return ((value << -shift) as u64, shift);
    }
    let (kept, rest, half) = (value >> shift, value & ((1 << shift) - 1), 1u128 << (shift - 1));
    let up = rest > half || rest == half && kept & 1 == 1;
    match kept + u128::from(up) {
        carried if carried >> 64 != 0 => (1 << 63, shift + 1),
        kept => (kept as u64, shift),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rounding twice, or to too few bits, would change the last digit.
    #[test]
    fn averages_are_rounded_as_by_x87() {
        for (sum, count, scale, expected) in [
            (1, 3, 0, 1.0 / 3.0),
            (-1, 3, 0, -1.0 / 3.0),
            (10, 4, 0, 2.5),
            (301, 2, 2, 1.505),
            (i128::from(i64::MAX) * 2, 2, 0, 9_223_372_036_854_775_807.0),
            (0, 7, 3, 0.0),
            // Just above the middle of two numbers of 53 bits, which shows in the 65th bit alone.
            (3_472_222, 71, 2, 489.045_352_112_676_1),
            (1, 1, 38, 1e-38),
        ] {
            assert_eq!(average(sum, count, scale), expected, "{sum} / {count} / 10^{scale}");
        }
        assert_eq!(extended(u128::MAX), (1 << 63, 65));
        assert_eq!(extended(3), (3 << 62, -62));
    }
}
