//! Weights of queues: how a drive's queues share its fetching of commands.
//!
//! With NVMe's weighted round robin (NVMe Base 2.1, 3.4.4.2) a queue has a class, and a class has a weight: classes
//! with pending commands share fetching in proportion to their weights, and queues within a class alternate. The paper
//! gives each queue a weight of its own (4.4). Both agree if the weight of a queue is that of its class, divided among
//! the queues of the class, and the sum is over the classes that have queues; [`weight`] computes this. Without weights
//! every queue counts as one.
//!
//! Shadow queues are in the low class, so that a lender's own commands are fetched first; users' queues are in the
//! class that they request. An unbound shadow queue has no commands, and does not count.

use crate::decision::policy::Weight;
use byteway_wire::nvme::QueuePriority;
use byteway_wire::nvme::feature::Arbitration;

/// Weights of NVMe's classes, each from 1 to 256 commands per turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueWeights {
    /// High priority.
    pub high: u16,
    /// Medium priority, the default of users' queues.
    pub medium: u16,
    /// Low priority, used by shadow queues.
    pub low: u16,
}

/// Resolution of weights, so that a class can be divided among its queues.
const PARTS: u32 = 5040;

impl QueueWeights {
    fn of(self, class: QueuePriority) -> u32 {
        let weight = match class {
            // Before all others: as if it were alone with high priority.
            QueuePriority::Urgent | QueuePriority::High => self.high,
            QueuePriority::Medium => self.medium,
            QueuePriority::Low => self.low,
        };
        u32::from(weight.clamp(1, 256))
    }

    /// The Arbitration feature with these weights.
    pub(super) fn feature(self) -> Arbitration {
        let zero_based = |class| (self.of(class) - 1) as u8;
        Arbitration::new()
            .with_ab(0b111) // no limit: the weight ends a turn
            .with_hpw_z(zero_based(QueuePriority::High))
            .with_mpw_z(zero_based(QueuePriority::Medium))
            .with_lpw_z(zero_based(QueuePriority::Low))
    }
}

/// Weight of the queue with completion queue `cqid` among `queues` that may have commands, given as class and
/// completion queue.
pub(super) fn weight(weights: Option<QueueWeights>, queues: &[(QueuePriority, u16)], cqid: u16) -> Weight {
    let Some(weights) = weights else {
        return Weight { own: PARTS, all: PARTS * (queues.len().max(1) as u32) };
    };
    let of_class = |class: QueuePriority| queues.iter().filter(|(of, _)| *of == class).count() as u32;
    let classes = [QueuePriority::Urgent, QueuePriority::High, QueuePriority::Medium, QueuePriority::Low];
    let used = classes.into_iter().filter(|class| of_class(*class) > 0);
    let all = used.map(|class| weights.of(class) * PARTS).sum::<u32>().max(PARTS);
    let class = queues.iter().find(|(_, its)| *its == cqid).map(|(class, _)| *class);
    let part = |class| weights.of(class) * PARTS / of_class(class).max(1);
    Weight { own: class.map_or(PARTS, part), all }
}
