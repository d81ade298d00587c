//! Structs of counters, which are summed, and subtracted from later ones, field by field.
//!
//! A macro of declarations rather than a derive: it needs no crate of its own, and an array or an inner struct of counters
//! is a field like any other. It is here because this is the lowest crate that all who count depend on.

use crate::time::Delay;

/// A number, an array of numbers, or a struct of [`counters!`](macro@crate::counters).
pub trait Count {
    /// Adds `other`.
    fn increase(&mut self, other: &Self);

    /// Subtracts `earlier`, which is not greater in any field.
    fn decrease(&mut self, earlier: &Self);
}

macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl Count for $number {
            #[inline]
            fn increase(&mut self, other: &Self) {
                *self += *other;
            }

            #[inline]
            fn decrease(&mut self, earlier: &Self) {
                *self -= *earlier;
            }
        })+
    };
}

numbers!(u32, u64, u128, i64);

impl Count for Delay {
    fn increase(&mut self, other: &Self) {
        *self += *other;
    }

    fn decrease(&mut self, earlier: &Self) {
        debug_assert!(*earlier <= *self, "an earlier sum of delays is greater than a later one");
        *self = self.saturating_sub(*earlier);
    }
}

impl<T: Count, const N: usize> Count for [T; N] {
    fn increase(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, other)| sum.increase(other));
    }

    fn decrease(&mut self, earlier: &Self) {
        self.iter_mut().zip(earlier).for_each(|(now, then)| now.decrease(then));
    }
}

/// Declares a struct of counters, with `+=`, `+` and `-` by field, and the names of its fields. Fields are [`Count`]s.
///
/// ```
/// byteway_clock::counters! {
///     /// Commands of a queue.
///     #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
///     pub struct Commands {
///         /// Commands read, by priority.
///         pub fetched: [u64; 2],
///         /// Completions written.
///         pub posted: u64,
///     }
/// }
/// let (then, now) = (Commands { fetched: [1, 0], posted: 1 }, Commands { fetched: [5, 2], posted: 3 });
/// assert_eq!(now - then, Commands { fetched: [4, 2], posted: 2 });
/// assert_eq!(now - then + then, now);
/// assert_eq!(Commands::NAMES, ["fetched", "posted"]);
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$meta:meta])*
        $visible:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_visible:vis $field:ident: $kind:ty,)+
        }
    ) => {
        $(#[$meta])*
        $visible struct $name {
            $($(#[$field_meta])* $field_visible $field: $kind,)+
        }

        impl $name {
            /// Names of the counters.
            #[allow(dead_code, reason = "not all who count name what they count")]
            $visible const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];
        }

        impl $crate::counters::Count for $name {
            #[inline]
            fn increase(&mut self, other: &Self) {
                $($crate::counters::Count::increase(&mut self.$field, &other.$field);)+
            }

            #[inline]
            fn decrease(&mut self, earlier: &Self) {
                $($crate::counters::Count::decrease(&mut self.$field, &earlier.$field);)+
            }
        }

        impl std::ops::AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                $crate::counters::Count::increase(self, &other);
            }
        }

        impl std::ops::Add for $name {
            type Output = Self;

            #[inline]
            fn add(mut self, other: Self) -> Self {
                $crate::counters::Count::increase(&mut self, &other);
                self
            }
        }

        impl std::ops::Sub for $name {
            type Output = Self;

            #[inline]
            fn sub(mut self, earlier: Self) -> Self {
                $crate::counters::Count::decrease(&mut self, &earlier);
                self
            }
        }
    };
}
