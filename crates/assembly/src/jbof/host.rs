//! The host of a box: its drivers and queue pairs, and weights of queues.
//!
//! **Weights** ([`QueueWeights`]). With NVMe's weighted round robin (NVMe Base 2.1, 3.4.4.2) a queue is of a class, and a class has a
//! weight: of the commands that are fetched, classes that have any get shares as their weights are, and in a class its queues take turns.
//! The paper gives each queue a weight of its own (4.4). Both are the same if a queue's weight is that of its class, parted among the
//! queues of the class, and the sum is over the classes that have queues: what [`Attached::weight`] gives. Shadow queues are of the low
//! class, so that a lender's own commands are fetched first; users' are of the one that they ask for. A shadow queue that is not bound is
//! never rung, and counts for nothing. Without weights every queue counts as one.

use super::member::Present;
use super::{Inner, JbofError};
use byteway_clock::random::Rng;
use byteway_host::driver::{Arbitration, Completion, Data, Driver, DriverConfig, QueueConfig};
use byteway_host::{DriverError, Port, QueuePair, Redirection};
use byteway_jbof::policy::Weight;
use byteway_wire::nvme::feature::Arbitration as ArbitrationFeature;
use byteway_wire::nvme::{QueuePriority, SetFeatures, fid};
use std::cell::RefCell;
use std::rc::Rc;

/// The weights of NVMe's classes, each from 1 to 256 commands a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueWeights {
    /// Of high priority.
    pub high: u16,
    /// Of medium priority, which users' queues have unless they ask for another.
    pub medium: u16,
    /// Of low priority, which shadow queues have.
    pub low: u16,
}

impl QueueWeights {
    fn of(self, class: QueuePriority) -> u32 {
        let weight = match class {
            // Before all others: as if it were of high priority and alone.
            QueuePriority::Urgent | QueuePriority::High => self.high,
            QueuePriority::Medium => self.medium,
            QueuePriority::Low => self.low,
        };
        u32::from(weight.clamp(1, 256))
    }

    fn feature(self) -> ArbitrationFeature {
        let zero_based = |class| (self.of(class) - 1) as u8;
        ArbitrationFeature::new()
            .with_ab(0b111) // no limit: a turn ends by its weight
            .with_hpw_z(zero_based(QueuePriority::High))
            .with_mpw_z(zero_based(QueuePriority::Medium))
            .with_lpw_z(zero_based(QueuePriority::Low))
    }
}

/// A drive as the host has it: until the host restarts, or the drive is gone.
pub(super) struct Attached {
    pub(super) driver: Driver,
    /// In which life of the drive.
    pub(super) life: u64,
    /// The queue pair that the drive may lend.
    pub(super) shadow: QueuePair,
    /// Queue pairs that its users have, which commands may leave.
    pub(super) own: RefCell<Vec<Own>>,
}

/// A queue pair of the users of a drive.
pub(super) struct Own {
    pub(super) redirection: Redirection,
    class: QueuePriority,
}

/// So many parts a weight has, so that a class can be parted among its queues.
const PARTS: u32 = 5040;

impl Attached {
    /// The users' queue pair whose completion queue has this identifier.
    pub(super) fn find(&self, cqid: u16) -> Option<Redirection> {
        let own = self.own.borrow();
        own.iter().map(|own| &own.redirection).find(|own| own.queue().cqid() == cqid).cloned()
    }

    /// The weight of its queue with this completion queue, among all; `is_bound`: its shadow queue has commands, too.
    pub(super) fn weight(&self, weights: Option<QueueWeights>, cqid: u16, is_bound: bool) -> Weight {
        let own = self.own.borrow();
        let users = own.iter().map(|own| (own.class, own.redirection.queue().cqid()));
        let shadow = is_bound.then_some((QueuePriority::Low, self.shadow.cqid()));
        let queues: Vec<(QueuePriority, u16)> = users.chain(shadow).collect();
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
}

impl Inner {
    /// Attaches a driver to a drive that has power and no driver; and makes the queue pair that it may lend. Ends early when the power
    /// goes, as it would by time limits of a host's.
    pub(super) async fn attach(&self, number: usize) -> Result<(), JbofError> {
        let Some(present) = self.members[number].present() else { return Ok(()) };
        let attached = present.while_on(&self.clock, self.attach_to(number, &present)).await;
        attached.unwrap_or(Err(JbofError::Gone(number)))
    }

    async fn attach_to(&self, number: usize, present: &Present) -> Result<(), JbofError> {
        let config = &self.config;
        let failed = |error: DriverError| JbofError::Driver { drive: number, error };
        let of_box = DriverConfig {
            timeout: config.timeout,
            timeout_period: config.timeout.map_or(config.period, |timeout| timeout / 4),
            costs: config.host.costs,
            cpu: Some(self.cpu.clone()),
            ..DriverConfig::default()
        };
        let own = self.members[number].driver.clone().unwrap_or(of_box);
        let central = config.platform.is_central().then(|| self.cpu.clone());
        let driver_config = DriverConfig {
            cpu: central.clone().or(own.cpu.clone()),
            // One more for the queue pair that it lends.
            queues_wanted: own.queues_wanted.saturating_add(1),
            arbitration: match config.weights {
                Some(_) => Arbitration::Weighted,
                None => own.arbitration,
            },
            ..own
        };
        let vector = (driver_config.completion == Completion::Interrupt).then_some(1);
        let port = Port::Link(present.powered.host.clone());
        let driver = Driver::attach(port, driver_config).await.map_err(failed)?;
        if let Some(weights) = config.weights {
            let cdw11 = weights.feature().into_bits();
            let sqe = SetFeatures { fid: fid::ARBITRATION, cdw11, ..SetFeatures::default() }.sqe(0, 0);
            driver.admin(sqe, Data::None).await.map_err(failed)?;
        }
        let cpu = central.or(self.members[number].lent_cpu.clone());
        let priority = QueuePriority::Low;
        let shadow = QueueConfig { priority, vector, cpu, ..QueueConfig::new(config.entries) };
        let shadow = driver.create_queue_pair(shadow).await.map_err(failed)?;
        let attached = Attached { driver, life: present.life, shadow, own: RefCell::default() };
        if let Some(before) = self.members[number].attached.replace(Some(Rc::new(attached))) {
            before.driver.abandon(); // it was of a drive that is gone
        }
        Ok(())
    }

    /// A queue pair as the host's processors have it: where something is central, any of them works for it.
    pub(super) fn placed(&self, queue: QueueConfig) -> QueueConfig {
        match self.config.platform.is_central() {
            true => QueueConfig { cpu: Some(self.cpu.clone()), ..queue },
            false => queue,
        }
    }

    /// A queue pair for users of a drive, which has one more then.
    pub(super) async fn queue_pair(&self, drive: usize, queue: QueueConfig) -> Result<QueuePair, JbofError> {
        let attached = self.members[drive].attached().ok_or(JbofError::Gone(drive))?;
        let class = queue.priority;
        let queue = self.placed(queue);
        let queue = attached.driver.create_queue_pair(queue).await;
        let queue = queue.map_err(|error| JbofError::Driver { drive, error })?;
        let name = format!("redirection/{drive}/{}", self.queues_made.replace(self.queues_made.get() + 1));
        let draws = Rng::new(self.config.seed).stream(&name);
        let redirection = Redirection::new(&self.clock, queue, draws, self.config.redirect);
        let used = redirection.queue();
        attached.own.borrow_mut().push(Own { redirection, class });
        Ok(used)
    }
}
