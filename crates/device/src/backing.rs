//! The storage behind a controller's units: a translation layer over flash, or an array of whole drives.
//!
//! Operations are those of [`Ftl`]. Those that only a translation layer supports are marked; over an array
//! they are neither offered to hosts nor called ([`Backing::has_own_media`]).

use byteway_array::{Array, ArrayCounters, Bridge};
use byteway_clock::{SpanId, Spans};
use byteway_content::{Content, Keep, UNIT_BYTES, marred_parts};
use byteway_firmware::{Ftl, Health, LentMemory, MediaError, Route, WorkContext};
use byteway_flash::Medium;
use std::rc::Rc;

/// The storage behind a controller's units. Cheap to clone; clones share state.
#[derive(Clone)]
pub enum Backing {
    /// A translation layer.
    Ftl(Ftl),
    /// An array of drives, whose power is their own.
    Array(Array),
    /// An array behind a bridge with memory for small writes.
    Bridge(Bridge),
}

impl From<Ftl> for Backing {
    fn from(ftl: Ftl) -> Backing {
        Backing::Ftl(ftl)
    }
}

impl From<Array> for Backing {
    fn from(array: Array) -> Backing {
        Backing::Array(array)
    }
}

impl From<Bridge> for Backing {
    fn from(bridge: Bridge) -> Backing {
        Backing::Bridge(bridge)
    }
}

impl Backing {
    /// The translation layer; `None` over an array.
    #[inline]
    pub fn ftl(&self) -> Option<&Ftl> {
        match self {
            Backing::Ftl(ftl) => Some(ftl),
            Backing::Array(_) | Backing::Bridge(_) => None,
        }
    }

    /// The array; `None` over a translation layer.
    pub fn array(&self) -> Option<&Array> {
        match self {
            Backing::Array(array) => Some(array),
            Backing::Bridge(bridge) => Some(bridge.array()),
            Backing::Ftl(_) => None,
        }
    }

    /// The translation layer, for a command set that requires one.
    ///
    /// # Panics
    /// Over an array. No valid configuration has such a command set there.
    pub(crate) fn own_ftl(&self) -> &Ftl {
        self.ftl().expect("only a drive with a translation layer of its own has this command set")
    }

    /// Counters of an array; `None` over a translation layer, which has [its own](Ftl::counters).
    pub fn array_counters(&self) -> Option<ArrayCounters> {
        self.array().map(Array::counters)
    }

    /// Whether the controller can make units unreadable and erase deallocated data. It can't where other drives hold
    /// them.
    #[inline]
    pub(crate) fn has_own_media(&self) -> bool {
        self.ftl().is_some()
    }

    /// Capacity in units.
    pub(crate) fn user_units(&self) -> u64 {
        match self {
            Backing::Ftl(ftl) => ftl.user_units(),
            Backing::Array(array) => array.user_units(),
            Backing::Bridge(bridge) => bridge.array().user_units(),
        }
    }

    /// Units written by hosts.
    pub(crate) fn user_units_written(&self) -> u64 {
        match self {
            Backing::Ftl(ftl) => ftl.counters().user_units_written,
            Backing::Array(array) => array.counters().user_units_written,
            Backing::Bridge(bridge) => bridge.array().counters().user_units_written,
        }
    }

    /// Same as [`Ftl::is_plain`].
    #[inline]
    pub(crate) fn is_plain(&self, route: Route) -> bool {
        match self {
            Backing::Ftl(ftl) => ftl.is_plain(route),
            Backing::Array(_) | Backing::Bridge(_) => false,
        }
    }

    /// Like [`Ftl::read_at_once`]; `None` over an array, which always waits for its members.
    #[inline]
    pub(crate) fn read_at_once(&self, unit: u64) -> Option<Content> {
        self.ftl()?.read_at_once(unit)
    }

    /// Same as [`Ftl::can_write_at_once`].
    #[inline]
    pub(crate) fn can_write_at_once(&self, unit: u64, durable: bool) -> bool {
        self.ftl().is_some_and(|ftl| ftl.can_write_at_once(unit, durable))
    }

    /// Same as [`Ftl::write_at_once`].
    #[inline]
    pub(crate) fn write_at_once(&self, unit: u64, content: Content) {
        self.own_ftl().write_at_once(unit, content);
    }

    /// Same as [`Ftl::read`].
    pub(crate) async fn read(
        &self,
        context: WorkContext,
        spans: &Spans,
        first: u64,
        count: u32,
        out: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        match self {
            Backing::Ftl(ftl) => ftl.read(context, spans, first, count, out).await,
            Backing::Array(array) => array.read(context, first, count, out).await,
            Backing::Bridge(bridge) => bridge.read(context, first, count, out).await,
        }
    }

    /// Same as [`Ftl::write`].
    pub(crate) async fn write(
        &self,
        context: WorkContext,
        spans: &Spans,
        first: u64,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        match self {
            Backing::Ftl(ftl) => ftl.write(context, spans, first, contents, durable).await,
            Backing::Array(array) => array.write(context, first, contents, durable).await,
            Backing::Bridge(bridge) => bridge.write(context, first, contents, durable).await,
        }
    }

    /// Same as [`Ftl::edit`].
    pub(crate) async fn edit(
        &self,
        context: WorkContext,
        spans: &Spans,
        unit: u64,
        edit: impl FnOnce(&mut [u8; UNIT_BYTES], &mut u8),
        durable: bool,
    ) -> Result<(), MediaError> {
        match self {
            Backing::Ftl(ftl) => ftl.edit(context, spans, unit, edit, durable).await,
            Backing::Array(array) => array.edit(context, unit, edit, durable).await,
            Backing::Bridge(bridge) => bridge.edit(context, unit, edit, durable).await,
        }
    }

    /// Same as [`Ftl::write_part`].
    pub(crate) async fn write_part(
        &self,
        context: WorkContext,
        spans: &Spans,
        part: UnitPart<'_>,
        durable: bool,
    ) -> Result<(), MediaError> {
        let UnitPart { unit, offset, bytes, command_bytes } = part;
        let (from, count) = (offset as u32, bytes.len() as u32);
        let edit = |whole: &mut [u8; UNIT_BYTES], marred: &mut u8| {
            whole[offset..offset + bytes.len()].copy_from_slice(bytes);
            *marred &= !marred_parts(offset, bytes.len());
        };
        let content = || {
            let mut whole = [0; UNIT_BYTES];
            edit(&mut whole, &mut 0);
            Content::of(&whole, Keep::Stamps)
        };
        match self {
            Backing::Ftl(ftl) => ftl.write_part(context, spans, unit, offset, bytes, durable).await,
            Backing::Array(array) if array.takes_parts(from, count) => {
                array.write_part(context, unit, from, count, &content(), durable).await
            }
            Backing::Array(array) => array.edit(context, unit, edit, durable).await,
            Backing::Bridge(bridge) if bridge.takes_parts(from, count) => {
                bridge.write_part(context, unit, from, count, &content(), durable, command_bytes).await
            }
            Backing::Bridge(bridge) => bridge.edit(context, unit, edit, durable).await,
        }
    }

    /// Same as [`Ftl::trim`].
    pub(crate) async fn trim(
        &self,
        span: SpanId,
        spans: &Spans,
        first: u64,
        count: u64,
    ) -> Result<(), MediaError> {
        match self {
            Backing::Ftl(ftl) => ftl.trim(span, spans, first, count).await,
            Backing::Array(array) => array.trim(span, first, count).await,
            Backing::Bridge(bridge) => bridge.trim(span, first, count).await,
        }
    }

    /// Like [`Ftl::exchange_units_max`]. Over an array, readers may see units of different members at different instants.
    pub(crate) fn exchange_units_max(&self) -> u32 {
        match self {
            Backing::Ftl(ftl) => ftl.exchange_units_max(),
            Backing::Array(_) | Backing::Bridge(_) => 1,
        }
    }

    /// Same as [`Ftl::exchange`].
    pub(crate) async fn exchange(
        &self,
        span: SpanId,
        spans: &Spans,
        units: &[u64],
    ) -> Result<Exchange<'_>, MediaError> {
        match self {
            Backing::Ftl(ftl) => ftl.exchange(span, spans, units).await.map(Exchange::Ftl),
            Backing::Array(array) => match units {
                [unit] => array.exchange(span, *unit).await.map(Exchange::Array),
                _ => Err(MediaError::OutOfRange),
            },
            Backing::Bridge(bridge) => match units {
                [unit] => bridge.exchange(span, *unit).await.map(Exchange::Bridge),
                _ => Err(MediaError::OutOfRange),
            },
        }
    }

    /// Same as [`Ftl::flush`].
    pub(crate) async fn flush(&self, span: SpanId, spans: &Spans) -> Result<(), MediaError> {
        match self {
            Backing::Ftl(ftl) => ftl.flush(span, spans).await,
            Backing::Array(array) => array.flush(span).await,
            Backing::Bridge(bridge) => bridge.flush(span).await,
        }
    }

    /// Same as [`Ftl::shutdown`].
    pub(crate) async fn shutdown(&self, span: SpanId, spans: &Spans) -> Result<(), MediaError> {
        match self {
            Backing::Ftl(ftl) => ftl.shutdown(span, spans).await,
            Backing::Array(array) => array.shutdown(span).await,
            Backing::Bridge(bridge) => bridge.shutdown(span).await,
        }
    }

    /// Like [`Ftl::ready`]. An array is ready: it was assembled before.
    pub(crate) async fn ready(&self) {
        match self {
            Backing::Ftl(ftl) => ftl.ready().await,
            Backing::Array(_) | Backing::Bridge(_) => {}
        }
    }

    /// Same as [`Ftl::health`].
    pub(crate) fn health(&self) -> Health {
        match self {
            Backing::Ftl(ftl) => ftl.health(),
            Backing::Array(array) => array.health(),
            Backing::Bridge(bridge) => bridge.array().health(),
        }
    }

    /// Same as [`Ftl::worsened`].
    pub(crate) async fn worsened(&self) {
        match self {
            Backing::Ftl(ftl) => ftl.worsened().await,
            Backing::Array(array) => array.worsened().await,
            Backing::Bridge(bridge) => bridge.array().worsened().await,
        }
    }

    /// Same as [`Ftl::purge`].
    ///
    /// # Errors
    /// Always over an array: the members' media are not the controller's to erase.
    pub(crate) async fn purge(&self, progress: impl Fn(u32)) -> Result<(), MediaError> {
        match self {
            Backing::Ftl(ftl) => ftl.purge(progress).await,
            Backing::Array(_) | Backing::Bridge(_) => Err(MediaError::NotErased),
        }
    }

    /// Same as [`Ftl::store_record`].
    pub(crate) async fn store_record(&self, bytes: Rc<[u8]>) {
        match self {
            Backing::Ftl(ftl) => ftl.store_record(bytes).await,
            Backing::Array(array) => array.store_record(bytes).await,
            Backing::Bridge(bridge) => bridge.array().store_record(bytes).await,
        }
    }

    /// Same as [`Ftl::record`].
    pub(crate) fn record(&self) -> Option<Rc<[u8]>> {
        match self {
            Backing::Ftl(ftl) => ftl.record(),
            Backing::Array(array) => array.record(),
            Backing::Bridge(bridge) => bridge.array().record(),
        }
    }

    /// Like [`Ftl::borrow_memory`]; `false` over an array, which has no use for it.
    pub(crate) fn borrow_memory(&self, memory: Rc<dyn LentMemory>, places: u32) -> bool {
        self.ftl().is_some_and(|ftl| ftl.borrow_memory(memory, places))
    }

    /// Same as [`Ftl::return_memory`].
    pub(crate) async fn return_memory(&self) {
        if let Backing::Ftl(ftl) = self {
            ftl.return_memory().await;
        }
    }

    /// Same as [`Ftl::is_attending`].
    pub(crate) fn is_attending(&self) -> bool {
        match self {
            Backing::Ftl(ftl) => ftl.is_attending(),
            Backing::Array(array) => array.is_attending(),
            Backing::Bridge(bridge) => bridge.array().is_attending(),
        }
    }

    /// Sum of the erases of all superblocks, and the number of superblocks; `None` over an array.
    pub(crate) fn erases(&self) -> Option<(u64, u64)> {
        let flash = self.ftl()?.data_end();
        let mut erases = 0;
        flash.each_erases(|of_block| erases += u64::from(of_block));
        Some((erases, flash.geometry().total_blocks().into()))
    }

    /// Number of locked units or ranges.
    pub fn locked(&self) -> usize {
        match self {
            Backing::Ftl(ftl) => ftl.units_locked(),
            Backing::Array(array) => array.ranges_locked(),
            Backing::Bridge(bridge) => bridge.ranges_locked(),
        }
    }

    /// Cuts the power. Returns the media, if there are own ones.
    pub(crate) fn power_off(&self) -> Option<Medium> {
        match self {
            Backing::Ftl(ftl) => match ftl.data_end().own() {
                Some(_) => Some(ftl.power_off()),
                None => {
                    ftl.stop();
                    None
                }
            },
            Backing::Array(array) => {
                array.stop();
                None
            }
            // The bridge's memory stays with the bridge: [`Bridge::power_off`] returns it.
            Backing::Bridge(bridge) => {
                bridge.stop();
                None
            }
        }
    }
}

/// A part of a unit to be written.
pub(crate) struct UnitPart<'a> {
    pub(crate) unit: u64,
    /// Offset in the unit, in bytes.
    pub(crate) offset: usize,
    pub(crate) bytes: &'a [u8],
    /// Length of the whole command, in bytes.
    pub(crate) command_bytes: u64,
}

/// Locked units: no other command changes them until this is dropped or has written them.
pub(crate) enum Exchange<'a> {
    Ftl(byteway_firmware::Exchange<'a>),
    Array(byteway_array::UnitExchange),
    Bridge(byteway_array::BridgeExchange),
}

impl Exchange<'_> {
    /// Same as [`byteway_firmware::Exchange::read`].
    pub(crate) async fn read(
        &self,
        span: SpanId,
        spans: &Spans,
        contents: &mut Vec<Content>,
    ) -> Result<(), MediaError> {
        match self {
            Exchange::Ftl(exchange) => exchange.read(span, spans, contents).await,
            Exchange::Array(exchange) => {
                exchange.read(span, contents).await;
                Ok(())
            }
            Exchange::Bridge(exchange) => exchange.read(span, contents).await,
        }
    }

    /// Same as [`byteway_firmware::Exchange::write`].
    pub(crate) async fn write(
        self,
        span: SpanId,
        spans: &Spans,
        contents: &mut Vec<Content>,
        durable: bool,
    ) -> Result<(), MediaError> {
        match self {
            Exchange::Ftl(exchange) => exchange.write(span, spans, contents, durable).await,
            Exchange::Array(exchange) => exchange.write(span, contents, durable).await,
            Exchange::Bridge(exchange) => exchange.write(span, contents, durable).await,
        }
    }
}
