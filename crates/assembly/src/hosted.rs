//! A drive whose firmware runs on the host: a from-scratch PCIe SSD ("Challenges in getting flash closer to CPU", section 2: "FSSD"),
//! an open-channel drive.
//!
//! Its hardware is endpoints, each a controller with a raw flash namespace and some of the channels, behind a PCIe switch. Map, write
//! buffer, collection and wear levelling run on the processors of the host:
//!
//! - what is done for a command, on the processor of its queue, as a driver's work is done by the thread that submits;
//! - what is done behind commands (collection, programs, checkpoints), and the interrupts of the endpoints, on one processor, the
//!   drive's *home*.
//!
//! So the firmware competes with applications for processors, and applications with it. Map and buffer may have one lock
//! ([`HostedConfig::is_locked`]).
//!
//! What a power cut takes: the map and the buffer are in the host's DRAM, which nothing protects. What was not flushed may be lost;
//! the map is found again in the spare areas, as after any power cut of a drive without power-loss protection.

use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Rate, Station};
use byteway_device::{ConfigError, ControllerConfig, Drive, DriveConfig, NamespaceConfig, SiteConfig};
use byteway_firmware::{Base, Ftl, FtlConfig, FtlError, Placement, Route, Site};
use byteway_flash::{Far, Geometry, Gone, Medium};
use byteway_host::driver::{Completion, Driver, DriverConfig, QueueConfig};
use byteway_host::{DriverError, Endpoints, HostCosts, PointerKind, Port, RawFlash, RawFlashConfig};
use byteway_link::{Generation, Memory, PcieConfig, Switch, SwitchConfig};
use byteway_world::{DriveBay, PoweredDrive};
use std::rc::Rc;

/// An endpoint, but for its flash.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Its controller.
    pub controller: ControllerConfig,
    /// Its processor and memory: an FPGA's, which decodes commands and moves data.
    pub site: SiteConfig,
    /// Its link.
    pub link: PcieConfig,
}

/// A drive whose firmware runs on the host.
#[derive(Clone, Debug)]
pub struct HostedConfig {
    /// The drive as applications see it: its flash is that of all endpoints, its cycles are those of the host's processors, and its
    /// site says how fast these and the host's memory are. Nothing says how many: the host does.
    pub drive: DriveConfig,
    /// Endpoints: they have the channels in equal parts.
    pub endpoints: u32,
    /// Each of them.
    pub endpoint: EndpointConfig,
    /// What lies before them; none: each is at the host by its own link.
    pub switch: Option<SwitchConfig>,
    /// Commands that may be under way at an endpoint.
    pub lanes: usize,
    /// What the endpoints' driver costs, for each raw command.
    pub costs: HostCosts,
    /// How it learns of completions.
    pub completion: Completion,
    /// Map and buffer are worked on by one command at a time.
    pub is_locked: bool,
    /// Payload is copied through buffers of the driver, at so many bytes a second of a processor; none: endpoints' data goes to and
    /// from applications' memory itself.
    pub bounce: Option<Rate>,
    /// Commands come by calls, one at a time from each processor, of which so much keeps no core; none: any number at a time.
    pub call: Option<Delay>,
}

/// Why such a drive does not come to be.
#[derive(Debug, thiserror::Error)]
pub enum HostedError {
    /// There can be no such drive.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The translation layer can't be.
    #[error(transparent)]
    Ftl(#[from] FtlError),
    /// An endpoint's controller does not do as it must.
    #[error("endpoint {endpoint}: {error}")]
    Driver {
        /// Which.
        endpoint: usize,
        /// What it did.
        error: DriverError,
    },
    /// An endpoint has no raw flash.
    #[error("endpoint {0} has no raw flash namespace")]
    NotRaw(usize),
    /// The endpoints' flash can't be used.
    #[error("the endpoints' flash is of no use: {0}")]
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

/// The link between applications and the front: function calls and the memory bus. It has 121 GB/s and no latency.
pub(crate) fn call() -> PcieConfig {
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

/// Lets the work for commands go by `routes` in turn, by the number of their queue. Of none, it all goes by [`Route::OWN`].
pub(crate) fn route_by_queue(powered: &PoweredDrive, routes: Vec<Route>) {
    if routes.is_empty() {
        return;
    }
    let of_queue = move |qid: u16| routes[usize::from(qid.saturating_sub(1)) % routes.len()];
    powered.drive.controller.route_by(Rc::new(move |qid, _| of_queue(qid)));
}

impl HostedConfig {
    /// Whether there can be such a drive.
    ///
    /// # Errors
    /// What is wrong, and what would be right.
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

    /// The description of each endpoint: they differ in their seeds and serial numbers only.
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
            // What it says of superblocks that are bad from the factory is the flash's, not the layer's.
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

    /// The media of endpoints that are new.
    ///
    /// # Errors
    /// As [`HostedConfig::validate`].
    pub fn media(&self) -> Result<Vec<Medium>, ConfigError> {
        self.validate()?;
        (0..self.endpoints).map(|number| Drive::medium(&self.endpoint_number(number))).collect()
    }
}

/// A drive whose endpoints have power, before drivers attach to them.
pub struct Hosted {
    config: HostedConfig,
    clock: Clock,
    processors: Vec<Rc<Station>>,
    endpoints: Vec<PoweredDrive>,
}

impl Hosted {
    /// Gives power to the endpoints of a drive, over the `media` that those of one with the same `config` have left, or new ones.
    /// Its firmware is to run on `processors`, of which the last is its home.
    ///
    /// # Errors
    /// There can be no such drive.
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

    /// The endpoints' drives: for who cuts the power while drivers attach.
    pub fn drives(&self) -> impl Iterator<Item = &Rc<Drive>> {
        self.endpoints.iter().map(|endpoint| &endpoint.drive)
    }

    /// Attaches drivers to the endpoints, starts the firmware on the host, and gives the drive as applications see it. It may still
    /// have to find out what its flash holds.
    ///
    /// # Errors
    /// An endpoint does not do as it must, or there can be no such drive.
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

    /// A driver for an endpoint, and its flash.
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
        // One entry is always empty, and reports and the system area have their turn beside the lanes.
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
