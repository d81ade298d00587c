//! A queue in classes of urgency without starvation.

use std::collections::VecDeque;

/// Operations of more urgent classes that may be served in a row past a waiting class.
pub(crate) const PASSED_MAX: u32 = 8;

/// A FIFO for each class. Class 0 is served first, but a class that [`PASSED_MAX`] more urgent operations
/// have passed has its turn.
pub(crate) struct Line<T, const CLASSES: usize> {
    classes: [VecDeque<T>; CLASSES],
    /// For each class: the more urgent operations served while it waited, since its last turn.
    passed: [u32; CLASSES],
    /// One bit for each non-empty class. Usually only one is set, and this word is all that is read.
    waiting: u32,
}

impl<T, const CLASSES: usize> Default for Line<T, CLASSES> {
    fn default() -> Self {
        Line { classes: std::array::from_fn(|_| VecDeque::new()), passed: [0; CLASSES], waiting: 0 }
    }
}

impl<T, const CLASSES: usize> Line<T, CLASSES> {
    pub(crate) fn len(&self) -> usize {
        self.classes.iter().map(VecDeque::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    pub(crate) fn push(&mut self, class: usize, value: T) {
        self.classes[class].push_back(value);
        self.waiting |= 1 << class;
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.take(self.choose(|_, _| false)?)
    }

    /// The class to serve next. A class whose turn has come despite more urgent ones is skipped if `blocked`
    /// holds for its first element and a more urgent one.
    #[inline]
    pub(crate) fn choose(&self, blocked: impl Fn(&T, &T) -> bool) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let first = self.waiting.trailing_zeros() as usize;
        if self.waiting == 1 << first {
            return Some(first);
        }
        let starving = (first + 1..CLASSES).rev().find(|class| self.passed[*class] >= PASSED_MAX);
        Some(match starving {
            Some(class) if !self.is_blocked(class, blocked) => class,
            _ => first,
        })
    }

    /// Whether more than one class waits.
    #[inline]
    pub(crate) fn has_several(&self) -> bool {
        self.waiting & self.waiting.wrapping_sub(1) != 0
    }

    /// More urgent elements that were served while a class waited, since its last turn.
    pub(crate) fn passed(&self, class: usize) -> u32 {
        self.passed[class]
    }

    /// Takes the first element of a class, and counts it as passing the classes below that wait.
    #[inline]
    pub(crate) fn take(&mut self, class: usize) -> Option<T> {
        let taken = self.classes[class].pop_front()?;
        self.passed[class] = 0;
        let mut lower = self.waiting & (u32::MAX - 1) << class;
        while lower != 0 {
            self.passed[lower.trailing_zeros() as usize] += 1;
            lower &= lower - 1;
        }
        if self.classes[class].is_empty() {
            self.waiting &= !(1 << class);
        }
        Some(taken)
    }

    /// The first element of a class.
    pub(crate) fn first_of(&self, class: usize) -> Option<&T> {
        self.classes[class].front()
    }

    /// The elements of a class, first to last.
    pub(crate) fn of(&self, class: usize) -> impl Iterator<Item = &T> {
        self.classes[class].iter()
    }

    /// The first element of the most urgent class.
    pub(crate) fn first(&self) -> Option<&T> {
        self.classes.get(self.waiting.trailing_zeros() as usize)?.front()
    }

    fn is_blocked(&self, class: usize, blocked: impl Fn(&T, &T) -> bool) -> bool {
        let Some(candidate) = self.classes[class].front() else { return true };
        self.classes[..class].iter().flatten().any(|urgent| blocked(candidate, urgent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Without the bound a die with a steady stream of host reads would never erase again.
    #[test]
    fn each_class_has_its_turn_after_eight_more_urgent() {
        let mut line = Line::<char, 3>::default();
        (0..40).for_each(|_| line.push(0, 'a'));
        (0..3).for_each(|_| line.push(1, 'b'));
        (0..3).for_each(|_| line.push(2, 'c'));
        let order: String = std::iter::from_fn(|| line.pop()).collect();
        assert_eq!(order, "aaaaaaaa cb aaaaaaa c a b aaaaaa c aa b aaaaaaaaaaaaaaaa".replace(' ', ""));
        assert_eq!(line.len(), 0);
    }

    // The bound must not let an erase overtake a read of its superblock.
    #[test]
    fn a_blocked_class_waits_on() {
        let mut line = Line::<u32, 2>::default();
        (0..20).for_each(|n| line.push(0, n));
        line.push(1, 15);
        let next = || line.choose(|last, urgent| last == urgent).and_then(|class| line.take(class));
        let order: Vec<u32> = std::iter::from_fn(next).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 15, 16, 17, 18, 19]);
    }
}
