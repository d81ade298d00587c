//! The host of a JBOF: it attaches drivers, and creates queue pairs for users and those that drives may lend.

use super::error::JbofError;
use super::state::{Attached, Inner, Present, UserQueue};
use byteway_clock::random::Rng;
use byteway_host::{Arbitration, Completion, Data, Driver, DriverConfig, QueueConfig};
use byteway_host::{DriverError, Port, QueuePair, Redirection};
use byteway_wire::nvme::{QueuePriority, SetFeatures, fid};
use std::cell::RefCell;
use std::rc::Rc;

impl Inner {
    /// Attaches a driver to a powered drive without one, and creates the queue pair that it may lend. Ends early on a
    /// power loss, as time limits of a host would make it.
    pub(super) async fn attach(&self, number: usize) -> Result<(), JbofError> {
        let Some(present) = self.members[number].present() else { return Ok(()) };
        let attached = present.while_on(&self.clock, self.attach_to(number, &present)).await;
        attached.unwrap_or(Err(JbofError::Gone(number)))
    }

    async fn attach_to(&self, number: usize, present: &Present) -> Result<(), JbofError> {
        let config = &self.config;
        let failed = |error: DriverError| JbofError::Driver { drive: number, error };
        let of_jbof = DriverConfig {
            timeout: config.timeout,
            timeout_period: config.timeout.map_or(config.period, |timeout| timeout / 4),
            costs: config.host.costs,
            cpu: Some(self.cpu.clone()),
            ..DriverConfig::default()
        };
        let own = self.members[number].driver.clone().unwrap_or(of_jbof);
        let central = config.platform.is_central().then(|| self.cpu.clone());
        let driver_config = DriverConfig {
            cpu: central.clone().or(own.cpu.clone()),
            // One more, for the queue pair that it lends.
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
        let attached = Attached { driver, life: present.life, shadow, users: RefCell::default() };
        if let Some(before) = self.members[number].attached.replace(Some(Rc::new(attached))) {
            before.driver.abandon(); // of a drive that is gone
        }
        Ok(())
    }

    /// The configuration of a queue pair, with the host's processors where any of them works for it.
    pub(super) fn placed(&self, queue: QueueConfig) -> QueueConfig {
        match self.config.platform.is_central() {
            true => QueueConfig { cpu: Some(self.cpu.clone()), ..queue },
            false => queue,
        }
    }

    /// Creates a further queue pair for users of a drive.
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
        attached.users.borrow_mut().push(UserQueue { redirection, class });
        Ok(used)
    }
}
