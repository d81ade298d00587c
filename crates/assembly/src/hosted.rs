//! A drive whose firmware runs on the host, an open-channel drive: a from-scratch PCIe SSD ("Challenges in getting
//! flash closer to CPU", section 2: "FSSD").
//!
//! Its hardware is endpoints behind a PCIe switch; each is a controller with a raw flash namespace and some of the
//! channels. Map, write buffer, garbage collection and wear leveling run on the host's processors:
//!
//! - work for a command, on the processor of its queue, as a driver's work runs in the submitting thread;
//! - background work (garbage collection, programs, checkpoints) and the endpoints' interrupts, on one processor, the
//!   drive's *home*.
//!
//! So firmware and applications compete for processors. Map and buffer may have one lock ([`HostedConfig::is_locked`]).
//!
//! A power cut loses the map and the buffer, which are in the host's unprotected DRAM. Unflushed data may be lost; the
//! map is rebuilt from the spare areas, as after any power cut of a drive without power-loss protection.

mod endpoints;
mod raw_flash;

pub use endpoints::Endpoints;
pub use raw_flash::{RawFlash, RawFlashConfig};

use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Rate, Station};
use byteway_device::{ConfigError, ControllerConfig, Drive, DriveConfig, NamespaceConfig, SiteConfig};
use byteway_firmware::{Base, Ftl, FtlConfig, FtlError, Placement, Route, Site};
use byteway_flash::{Far, Geometry, Gone, Medium};
use byteway_host::{Completion, Driver, DriverConfig, QueueConfig};
use byteway_host::{DriverError, HostCosts, PointerKind, Port};
use byteway_link::{Generation, Memory, PcieConfig, Switch, SwitchConfig};
use byteway_world::{DriveBay, PoweredDrive};
use std::rc::Rc;

/// An endpoint without its flash.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Controller of an endpoint.
    pub controller: ControllerConfig,
    /// Processor and memory of an endpoint: an FPGA that decodes commands and moves data.
    pub site: SiteConfig,
    /// Link of an endpoint.
    pub link: PcieConfig,
}

/// A drive whose firmware runs on the host.
#[derive(Clone, Debug)]
pub struct HostedConfig {
    /// The drive that applications see. Its flash is that of all endpoints. Its cycles are charged to the
    /// host's processors, whose number is the host's; its site states the speed of these and of the host's
    /// memory.
    pub drive: DriveConfig,
    /// Number of endpoints, which share the channels equally.
    pub endpoints: u32,
    /// Configuration of each endpoint.
    pub endpoint: EndpointConfig,
    /// The switch in front of them; `None`: each is attached to the host by its own link.
    pub switch: Option<SwitchConfig>,
    /// Maximum number of commands in flight at an endpoint.
    pub lanes: usize,
    /// Cost of the endpoints' driver, per raw command.
    pub costs: HostCosts,
    /// How the host detects completions of endpoints.
    pub completion: Completion,
    /// Only one command at a time uses map and buffer.
    pub is_locked: bool,
    /// Payload is copied through driver buffers, at this rate of a processor; `None`: endpoints transfer data to and
    /// from applications' memory directly.
    pub bounce: Option<Rate>,
    /// Commands are calls, one at a time per processor, of which this much time occupies no core; `None`: any number at
    /// a time.
    pub call: Option<Delay>,
}

/// Why such a drive could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum HostedError {
    /// The drive's configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The translation layer's configuration is invalid.
    #[error(transparent)]
    Ftl(#[from] FtlError),
    /// An endpoint's controller has failed.
    #[error("endpoint {endpoint}: {error}")]
    Driver {
        /// Number of the endpoint.
        endpoint: usize,
        /// Error of the endpoint's driver.
        error: DriverError,
    },
    /// An endpoint has no raw flash namespace.
    #[error("endpoint {0} has no raw flash namespace")]
    NotRaw(usize),
    /// The endpoints' flash is not usable.
    #[error("the endpoints' flash is not usable: {0}")]
    Flash(String),
}

impl From<Gone> for HostedError {
    fn from(gone: Gone) -> HostedError {
        HostedError::Flash(gone.to_string())
    }
}

fn impossible(message: String) -> ConfigError {
    ConfigError { message }
}

/// The link between applications and the front: function calls and the memory bus, with 121 GB/s and no latency.
pub fn call() -> PcieConfig {
    PcieConfig {
        generation: Generation::Gen6,
        lanes: 16,
        mps: 4096,
        mrrs: 4096,
        rcb: 128,
        read_tags: 1024,
        propagation: Delay::ZERO,
        memory_latency: Delay::ZERO,
        slowdown: 1,
    }
}

/// Distributes the work for commands over `routes`, by queue number. Without routes, all of it uses [`Route::OWN`].
pub(crate) fn route_by_queue(powered: &PoweredDrive, routes: Vec<Route>) {
    if routes.is_empty() {
        return;
    }
    let of_queue = move |qid: u16| routes[usize::from(qid.saturating_sub(1)) % routes.len()];
    powered.drive.controller.route_by(Rc::new(move |qid, _| of_queue(qid)));
}

impl HostedConfig {
    /// Checks that such a drive is possible.
    ///
    /// # Errors
    /// [`ConfigError`] with the invalid value and the valid range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let channels = self.drive.geometry.channels;
        if self.endpoints == 0 || !channels.is_multiple_of(self.endpoints) {
            return Err(impossible(format!(
                "{channels} channels don't divide among {} endpoints: let channels be a multiple of endpoints",
                self.endpoints
            )));
        }
        if self.lanes == 0 {
            return Err(impossible("an endpoint takes no command (lanes): at least 1 is needed".to_owned()));
        }
        if self.drive.base != Base::Empty {
            let message =
                "a drive whose firmware runs on the host is empty at first (precondition = \"empty\")";
            return Err(impossible(message.to_owned()));
        }
        if self.drive.ftl.plp {
            let message = "no capacitors save what is buffered in the host's memory: a drive whose firmware runs on the \
                host has no power-loss protection (plp = false)";
            return Err(impossible(message.to_owned()));
        }
        if self.drive.kv.is_some() {
            let message =
                "a drive whose firmware runs on the host has blocks, and no pairs of keys and values";
            return Err(impossible(message.to_owned()));
        }
        self.endpoint().validate()
    }

    /// The configuration of each endpoint; they differ in seed and serial number only.
    fn endpoint(&self) -> DriveConfig {
        let geometry = Geometry {
            channels: self.drive.geometry.channels / self.endpoints.max(1),
            ..self.drive.geometry
        };
        DriveConfig {
            controller: self.endpoint.controller.clone(),
            transfer: Default::default(),
            site: self.endpoint.site.clone(),
            namespaces: vec![NamespaceConfig::raw_flash(&geometry)],
            geometry,
            // Bad superblocks from the factory are a property of the flash, not of the layer.
            ftl: FtlConfig { upkeep: self.drive.ftl.upkeep.clone(), ..FtlConfig::default() },
            ..self.drive.clone()
        }
    }

    fn endpoint_number(&self, number: u32) -> DriveConfig {
        let endpoint = self.endpoint();
        let rng = Rng::new(self.drive.seed);
        DriveConfig {
            serial: format!("{:.16}-E{number}", self.drive.serial),
            seed: rng.stream(&format!("endpoint/{number}")).next_u64(),
            ..endpoint
        }
    }

    /// Media of new endpoints.
    ///
    /// # Errors
    /// Same as [`HostedConfig::validate`].
    pub fn media(&self) -> Result<Vec<Medium>, ConfigError> {
        self.validate()?;
        (0..self.endpoints).map(|number| Drive::medium(&self.endpoint_number(number))).collect()
    }
}

/// A drive with powered endpoints, before drivers attach to them.
pub struct Hosted {
    config: HostedConfig,
    clock: Clock,
    processors: Vec<Rc<Station>>,
    endpoints: Vec<PoweredDrive>,
}

impl Hosted {
    /// Powers on the endpoints of a drive, over the `media` that those of one with the same `config` have left, or new
    /// ones. Its firmware will run on `processors`, of which the last is its home.
    ///
    /// # Errors
    /// [`ConfigError`] if no such drive can exist.
    pub fn power_on(
        clock: &Clock,
        config: HostedConfig,
        processors: &[Rc<Station>],
        media: Option<Vec<Medium>>,
    ) -> Result<Hosted, ConfigError> {
        config.validate()?;
        if processors.is_empty() {
            let message = "the firmware is to run on the host, which has no processor for it (cores)";
            return Err(impossible(message.to_owned()));
        }
        let media = match media {
            Some(media) => media,
            None => config.media()?,
        };
        if media.len() != config.endpoints as usize {
            let message = format!("{} media for {} endpoints", media.len(), config.endpoints);
            return Err(impossible(message));
        }
        let switch = config.switch.as_ref().map(|switch| Switch::new(clock, switch));
        let endpoints = (0..config.endpoints).zip(media).map(|(number, medium)| {
            let link = config.endpoint.link.clone();
            let bay = match &switch {
                Some(switch) => DriveBay::behind(switch, clock, link, Memory::simulated()),
                None => DriveBay::new(clock, link, Memory::simulated()),
            };
            bay.power_on(config.endpoint_number(number), Some(medium))
        });
        let endpoints = endpoints.collect::<Result<_, _>>()?;
        Ok(Hosted { config, clock: clock.clone(), processors: processors.to_vec(), endpoints })
    }

    /// The endpoints' drives, for cutting the power while drivers attach.
    pub fn drives(&self) -> impl Iterator<Item = &Rc<Drive>> {
        self.endpoints.iter().map(|endpoint| &endpoint.drive)
    }

    /// Attaches drivers to the endpoints, starts the firmware on the host, and returns the drive that applications see.
    /// Its recovery may not have ended yet.
    ///
    /// # Errors
    /// [`HostedError`] if an endpoint fails, or no such drive can exist.
    pub async fn attach(self) -> Result<PoweredDrive, HostedError> {
        let Hosted { config, clock, processors, endpoints } = self;
        let home = &processors[processors.len() - 1];
        let mut parts = Vec::with_capacity(endpoints.len());
        for (number, endpoint) in endpoints.iter().enumerate() {
            parts.push(Self::open(&config, endpoint, home, number).await?);
        }
        let far = Far::attach(&clock, Endpoints::join(parts).await?).await?;
        let at = &config.drive.site;
        let site = |processor: &Rc<Station>| {
            Site::over(&clock, processor.clone(), at.hertz, at.dram_latency, at.dram_rate)
        };
        let own = site(home);
        let mut placement = Placement::all_at(&own, at.cycles);
        if config.is_locked {
            placement = placement.with_lock(&clock);
        }
        if let Some(wait) = config.call {
            placement = placement.with_calls(wait);
        }
        if let Some(rate) = config.bounce {
            placement = placement.with_bounce_buffers(rate);
        }
        let routes = processors.iter().map(|processor| placement.add_route_to(&clock, &site(processor)));
        let routes: Vec<Route> = routes.map(|route| route.unwrap_or(Route::OWN)).collect();
        let ftl = Ftl::over(&clock, placement.clone(), far, Drive::ftl_config(&config.drive))?;
        let front = DriveBay::new(&clock, call(), Memory::simulated());
        let mut powered = front.power_on_over(config.drive, own, placement, ftl, endpoints)?;
        powered.is_called = true;
        route_by_queue(&powered, routes);
        Ok(powered)
    }

    /// Attaches a driver to an endpoint and opens its flash.
    async fn open(
        config: &HostedConfig,
        endpoint: &PoweredDrive,
        home: &Rc<Station>,
        number: usize,
    ) -> Result<RawFlash, HostedError> {
        let failed = |error| HostedError::Driver { endpoint: number, error };
        let driver = DriverConfig {
            costs: config.costs,
            completion: config.completion,
            cpu: Some(home.clone()),
            interrupts_queue: true,
            queues_wanted: 1,
            ..DriverConfig::default()
        };
        let driver = Driver::attach(Port::Link(endpoint.host.clone()), driver).await.map_err(failed)?;
        // One entry always stays empty; reports and the system area need another one in addition to the lanes.
        let entries = (config.lanes as u32 + 2).next_power_of_two();
        let queue = QueueConfig {
            vector: (config.completion == Completion::Interrupt).then_some(1),
            cpu: Some(home.clone()),
            ..QueueConfig::new(entries)
        };
        let queue = driver.create_queue_pair(queue).await.map_err(failed)?;
        let raw = RawFlashConfig { lanes: config.lanes, pointer: PointerKind::Prp, keep: config.drive.keep };
        RawFlash::open(&driver, queue, raw).await.map_err(failed)?.ok_or(HostedError::NotRaw(number))
    }
}
