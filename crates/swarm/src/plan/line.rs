//! Text form of operations and faults, one per line.

use super::op::{Anchor, Extent, Fault, FlashVerb, MemoryVerb, Op, ProgramVerb, StoreWhen, TableVerb};
use std::fmt;
use std::str::FromStr;

/// A line that is not an operation or fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    line: String,
    what: &'static str,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.line, self.what)
    }
}

impl std::error::Error for LineError {}

/// The words of a line, read in order.
struct Line<'a> {
    line: &'a str,
    words: std::iter::Peekable<std::str::SplitAsciiWhitespace<'a>>,
}

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Self {
        Line { line, words: line.split_ascii_whitespace().peekable() }
    }

    fn error(&self, what: &'static str) -> LineError {
        LineError { line: self.line.to_owned(), what }
    }

    fn next<T: FromStr>(&mut self, what: &'static str) -> Result<T, LineError> {
        let word = self.words.next();
        word.and_then(|word| word.parse().ok()).ok_or_else(|| self.error(what))
    }

    /// Consumes the next word if it is `word`.
    fn takes(&mut self, word: &str) -> bool {
        self.words.next_if_eq(&word).is_some()
    }

    fn expect(&mut self, word: &str, what: &'static str) -> Result<(), LineError> {
        self.takes(word).then_some(()).ok_or_else(|| self.error(what))
    }

    /// Parses all remaining words as one type.
    fn rest<T: FromStr>(&mut self, what: &'static str) -> Result<Vec<T>, LineError> {
        let mut rest = Vec::new();
        while self.words.peek().is_some() {
            rest.push(self.next(what)?);
        }
        Ok(rest)
    }

    fn end<T>(mut self, parsed: T) -> Result<T, LineError> {
        if self.words.next().is_some() { Err(self.error("there is an extra word")) } else { Ok(parsed) }
    }
}

const NAMESPACE: &str = "a namespace must be a number, from 1";
const EXTENT: &str = "blocks must be `first+count`, with a count of at least 1";
const ANCHOR: &str = "a position must be `operation+later`, or `+later` from power-on";
const KEY: &str = "a key must be a number";
const BACK: &str = "a temporary loss must be `leave|lose-power|lose-link POSITION back MICROSECONDS`";
const NUMBER: &str = "a number is missing";

impl FromStr for Extent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (lba, blocks) = text.split_once('+').ok_or(EXTENT)?;
        let extent =
            Extent { lba: lba.parse().map_err(|_| EXTENT)?, blocks: blocks.parse().map_err(|_| EXTENT)? };
        (1..=1 << 16).contains(&extent.blocks).then_some(extent).ok_or(EXTENT)
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.lba, self.blocks)
    }
}

impl FromStr for Anchor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (op, later) = text.split_once('+').ok_or(ANCHOR)?;
        let op = if op.is_empty() { None } else { Some(op.parse().map_err(|_| ANCHOR)?) };
        Ok(Anchor { op, later: later.parse().map_err(|_| ANCHOR)? })
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Some(op) => write!(f, "{op}+{}", self.later),
            None => write!(f, "+{}", self.later),
        }
    }
}

impl FromStr for Op {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Self, LineError> {
        let mut line = Line::new(text);
        let verb: String = line.next("the line is empty")?;
        if verb == "pause" {
            let op = Op::Pause(line.next(NUMBER)?);
            return line.end(op);
        }
        if verb == "sanitize" {
            return line.end(Op::Sanitize);
        }
        if verb == "create" {
            let units = line.next(NUMBER)?;
            let pairs = line.takes("pairs");
            let block = if pairs { 4096 } else { line.next(NUMBER)? };
            return line.end(Op::Create { units, block, pairs });
        }
        if verb == "memory" {
            const MEMORY: &str = "a memory operation must be `memory EXTENT write NUMBER|read|fill`";
            let extent = line.next(EXTENT)?;
            let verb = match line.next::<String>(MEMORY)?.as_str() {
                "write" => MemoryVerb::Write(line.next(NUMBER)?),
                "read" => MemoryVerb::Read,
                "fill" => MemoryVerb::Fill,
                _ => return Err(line.error(MEMORY)),
            };
            return line.end(Op::Memory { extent, verb });
        }
        if verb == "program" {
            const PROGRAM: &str =
                "a program operation must be `program SLOT load KIND|unload|execute EXTENT NUMBER`";
            let slot = line.next(PROGRAM)?;
            let verb = match line.next::<String>(PROGRAM)?.as_str() {
                "load" => ProgramVerb::Load(line.next(NUMBER)?),
                "unload" => ProgramVerb::Unload,
                "execute" => ProgramVerb::Execute { extent: line.next(EXTENT)?, number: line.next(NUMBER)? },
                _ => return Err(line.error(PROGRAM)),
            };
            return line.end(Op::Program { slot, verb });
        }
        let namespace = line.next(NAMESPACE)?;
        let op = match verb.as_str() {
            "write" => Op::Write { namespace, extent: line.next(EXTENT)?, fua: line.takes("fua") },
            "read" => Op::Read { namespace, extent: line.next(EXTENT)? },
            "compare" => Op::Compare { namespace, extent: line.next(EXTENT)? },
            "exchange" => Op::Exchange { namespace, extent: line.next(EXTENT)?, wrong: line.takes("wrong") },
            "zeroes" => {
                let extent = line.next(EXTENT)?;
                Op::Zeroes { namespace, extent, deallocate: line.takes("deallocate") }
            }
            "trim" => {
                let extents: Vec<Extent> = line.rest(EXTENT)?;
                if extents.is_empty() || extents.len() > 256 {
                    return Err(line.error("a trim must have 1 to 256 ranges"));
                }
                Op::Trim { namespace, extents }
            }
            "flush" => Op::Flush { namespace },
            "verify" => Op::Verify { namespace, extent: line.next(EXTENT)? },
            "mar" => Op::Mar { namespace, extent: line.next(EXTENT)? },
            "copy" => {
                let to = line.next(NUMBER)?;
                line.expect("from", "a copy must be `copy NAMESPACE LBA from EXTENTS`")?;
                let extents: Vec<Extent> = line.rest(EXTENT)?;
                if extents.is_empty() || extents.len() > 128 {
                    return Err(line.error("a copy must have 1 to 128 ranges"));
                }
                Op::Copy { namespace, to, extents }
            }
            "format" => Op::Format { namespace, block: line.next(NUMBER)? },
            "delete" => Op::Delete { namespace },
            "store" => {
                let (key, bytes) = (line.next(KEY)?, line.next(NUMBER)?);
                let when = match (line.takes("exists"), line.takes("absent")) {
                    (true, _) => StoreWhen::Exists,
                    (_, true) => StoreWhen::Absent,
                    _ => StoreWhen::Always,
                };
                Op::Store { namespace, key, bytes, when }
            }
            "retrieve" => Op::Retrieve { namespace, key: line.next(KEY)? },
            "remove" => Op::Remove { namespace, key: line.next(KEY)? },
            "exist" => Op::Exist { namespace, key: line.next(KEY)? },
            "list" => Op::List { namespace, key: line.next(KEY)? },
            "scan" => Op::Scan { namespace, key: line.next(KEY)? },
            "table" => {
                const TABLE: &str = "a table operation must be `table NAMESPACE NUMBER append ROWS|drop|query FORM|filter SLOT`";
                let table = line.next(TABLE)?;
                let verb = match line.next::<String>(TABLE)?.as_str() {
                    "append" => TableVerb::Append(line.next(NUMBER)?),
                    "drop" => TableVerb::Drop,
                    "query" => TableVerb::Query(line.next(NUMBER)?),
                    "filter" => TableVerb::Filter(line.next(NUMBER)?),
                    _ => return Err(line.error(TABLE)),
                };
                Op::Table { namespace, table, verb }
            }
            _ => return Err(line.error("unknown operation")),
        };
        line.end(op)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = |set: bool, word: &'static str| if set { word } else { "" };
        match self {
            Op::Write { namespace, extent, fua } => {
                write!(f, "write {namespace} {extent}{}", flag(*fua, " fua"))
            }
            Op::Read { namespace, extent } => write!(f, "read {namespace} {extent}"),
            Op::Compare { namespace, extent } => write!(f, "compare {namespace} {extent}"),
            Op::Exchange { namespace, extent, wrong } => {
                write!(f, "exchange {namespace} {extent}{}", flag(*wrong, " wrong"))
            }
            Op::Zeroes { namespace, extent, deallocate } => {
                write!(f, "zeroes {namespace} {extent}{}", flag(*deallocate, " deallocate"))
            }
            Op::Trim { namespace, extents } => {
                write!(f, "trim {namespace}")?;
                extents.iter().try_for_each(|extent| write!(f, " {extent}"))
            }
            Op::Flush { namespace } => write!(f, "flush {namespace}"),
            Op::Verify { namespace, extent } => write!(f, "verify {namespace} {extent}"),
            Op::Mar { namespace, extent } => write!(f, "mar {namespace} {extent}"),
            Op::Copy { namespace, to, extents } => {
                write!(f, "copy {namespace} {to} from")?;
                extents.iter().try_for_each(|extent| write!(f, " {extent}"))
            }
            Op::Format { namespace, block } => write!(f, "format {namespace} {block}"),
            Op::Create { units, pairs: true, .. } => write!(f, "create {units} pairs"),
            Op::Create { units, block, .. } => write!(f, "create {units} {block}"),
            Op::Delete { namespace } => write!(f, "delete {namespace}"),
            Op::Store { namespace, key, bytes, when } => {
                let when = match when {
                    StoreWhen::Always => "",
                    StoreWhen::Exists => " exists",
                    StoreWhen::Absent => " absent",
                };
                write!(f, "store {namespace} {key} {bytes}{when}")
            }
            Op::Retrieve { namespace, key } => write!(f, "retrieve {namespace} {key}"),
            Op::Remove { namespace, key } => write!(f, "remove {namespace} {key}"),
            Op::Exist { namespace, key } => write!(f, "exist {namespace} {key}"),
            Op::List { namespace, key } => write!(f, "list {namespace} {key}"),
            Op::Scan { namespace, key } => write!(f, "scan {namespace} {key}"),
            Op::Table { namespace, table, verb } => match verb {
                TableVerb::Append(rows) => write!(f, "table {namespace} {table} append {rows}"),
                TableVerb::Drop => write!(f, "table {namespace} {table} drop"),
                TableVerb::Query(form) => write!(f, "table {namespace} {table} query {form}"),
                TableVerb::Filter(slot) => write!(f, "table {namespace} {table} filter {slot}"),
            },
            Op::Memory { extent, verb } => match verb {
                MemoryVerb::Write(seed) => write!(f, "memory {extent} write {seed}"),
                MemoryVerb::Read => write!(f, "memory {extent} read"),
                MemoryVerb::Fill => write!(f, "memory {extent} fill"),
            },
            Op::Program { slot, verb } => match verb {
                ProgramVerb::Load(kind) => write!(f, "program {slot} load {kind}"),
                ProgramVerb::Unload => write!(f, "program {slot} unload"),
                ProgramVerb::Execute { extent, number } => {
                    write!(f, "program {slot} execute {extent} {number}")
                }
            },
            Op::Sanitize => write!(f, "sanitize"),
            Op::Pause(micros) => write!(f, "pause {micros}"),
        }
    }
}

impl FromStr for Fault {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Self, LineError> {
        let mut line = Line::new(text);
        let verb: String = line.next("the line is empty")?;
        let fault = match verb.as_str() {
            "cut" => {
                let at = line.next(ANCHOR)?;
                let (blind, ends) = (line.takes("blind"), line.takes("ends"));
                let again = if line.takes("then") { line.rest(NUMBER)? } else { Vec::new() };
                Fault::Cut { at, again, blind, ends }
            }
            "cycle" => Fault::Cycle { at: line.next(ANCHOR)? },
            "reset" => Fault::Reset { at: line.next(ANCHOR)? },
            "abort" => {
                let at = line.next(ANCHOR)?;
                line.expect("queue", "an abort must have `queue N command N`")?;
                let queue = line.next(NUMBER)?;
                line.expect("command", "an abort must have `queue N command N`")?;
                Fault::Abort { at, queue, command: line.next(NUMBER)? }
            }
            "interrupt" => Fault::Interrupt { at: line.next(ANCHOR)? },
            "replay" => Fault::Replay { at: line.next(ANCHOR)?, bytes: line.next(NUMBER)? },
            "unplug" => {
                const UNPLUG: &str = "an unplug must be `unplug POSITION member N [returns] [with-power]`";
                let at = line.next(ANCHOR)?;
                line.expect("member", UNPLUG)?;
                let member = line.next(UNPLUG)?;
                let returns = line.takes("returns");
                Fault::Unplug { at, member, returns, with_power: line.takes("with-power") }
            }
            "leave" | "lose-power" => {
                let (at, is_seen) = (line.next(ANCHOR)?, verb == "leave");
                line.expect("back", BACK)?;
                Fault::Leave { at, is_seen, during: line.next(NUMBER)? }
            }
            "lose-link" => {
                let at = line.next(ANCHOR)?;
                line.expect("back", BACK)?;
                Fault::Link { at, during: line.next(NUMBER)? }
            }
            "restart-host" => Fault::Host { at: line.next(ANCHOR)? },
            "flash" => {
                const FLASH: &str = "a flash fault must have `read|program|erase die N nth N life N`";
                let verb = match line.next::<String>(FLASH)?.as_str() {
                    "read" => FlashVerb::Read,
                    "program" => FlashVerb::Program,
                    "erase" => FlashVerb::Erase,
                    _ => return Err(line.error(FLASH)),
                };
                let mut number = |name| {
                    line.expect(name, FLASH)?;
                    line.next(FLASH)
                };
                let (die, nth, life) = (number("die")?, number("nth")?, number("life")?);
                if nth == 0 {
                    return Err(line.error("flash operations are counted from 1"));
                }
                let die = u32::try_from(die).map_err(|_| line.error(FLASH))?;
                Fault::Flash { verb, die, nth, life: life as usize }
            }
            _ => return Err(line.error("unknown fault")),
        };
        line.end(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Cut { at, again, blind, ends } => {
                let flag = |set: bool, word: &'static str| if set { word } else { "" };
                write!(f, "cut {at}{}{}", flag(*blind, " blind"), flag(*ends, " ends"))?;
                if !again.is_empty() {
                    write!(f, " then")?;
                }
                again.iter().try_for_each(|polls| write!(f, " {polls}"))
            }
            Fault::Cycle { at } => write!(f, "cycle {at}"),
            Fault::Reset { at } => write!(f, "reset {at}"),
            Fault::Abort { at, queue, command } => write!(f, "abort {at} queue {queue} command {command}"),
            Fault::Interrupt { at } => write!(f, "interrupt {at}"),
            Fault::Replay { at, bytes } => write!(f, "replay {at} {bytes}"),
            Fault::Unplug { at, member, returns, with_power } => {
                let flag = |set: bool, word: &'static str| if set { word } else { "" };
                let (returns, with_power) = (flag(*returns, " returns"), flag(*with_power, " with-power"));
                write!(f, "unplug {at} member {member}{returns}{with_power}")
            }
            Fault::Leave { at, is_seen, during } => {
                write!(f, "{} {at} back {during}", if *is_seen { "leave" } else { "lose-power" })
            }
            Fault::Link { at, during } => write!(f, "lose-link {at} back {during}"),
            Fault::Host { at } => write!(f, "restart-host {at}"),
            Fault::Flash { verb, die, nth, life } => {
                let verb = match verb {
                    FlashVerb::Read => "read",
                    FlashVerb::Program => "program",
                    FlashVerb::Erase => "erase",
                };
                write!(f, "flash {verb} die {die} nth {nth} life {life}")
            }
        }
    }
}

macro_rules! as_line {
    ($($kind:ty),+) => {$(
        impl From<$kind> for String {
            fn from(kind: $kind) -> String {
                kind.to_string()
            }
        }

        impl TryFrom<String> for $kind {
            type Error = LineError;

            fn try_from(line: String) -> Result<Self, LineError> {
                line.parse()
            }
        }
    )+};
}
as_line!(Op, Fault);

#[cfg(test)]
mod tests {
    use super::*;

    // If a plan changed in a round trip, another run would be executed and the failure would be gone.
    #[test]
    fn lines_are_read_as_they_are_printed() {
        for line in [
            "write 1 120+8",
            "write 2 3+1 fua",
            "read 1 0+32",
            "compare 1 5+1",
            "zeroes 1 8+8",
            "zeroes 1 8+8 deallocate",
            "trim 1 0+8 64+2",
            "flush 3",
            "pause 250",
            "verify 1 0+8",
            "mar 1 3+1",
            "copy 1 40 from 0+8 16+2",
            "format 1 512",
            "create 20 4096",
            "create 500 pairs",
            "table 1 3 append 500",
            "table 2 0 drop",
            "table 1 1 query 1",
            "table 1 1 filter 3",
            "memory 12+100 write 7",
            "memory 0+1 read",
            "memory 3+50 fill",
            "program 2 load 5",
            "program 0 unload",
            "program 1 execute 16+64 900",
            "store 1 17 400",
            "store 2 17 0 exists",
            "store 1 3 9000 absent",
            "retrieve 1 17",
            "remove 1 17",
            "exist 1 17",
            "list 1 17",
            "scan 2 0",
            "delete 2",
            "sanitize",
        ] {
            assert_eq!(line.parse::<Op>().unwrap().to_string(), line);
        }
        for line in [
            "cut +12",
            "cut 3+250 then 40 7",
            "cut 3+250 blind then 40",
            "cut +250 blind ends then 40",
            "cut +250 ends",
            "cycle 4+0",
            "reset 2+30",
            "abort 9+1 queue 2 command 5",
            "interrupt 3+0",
            "replay 3+5 300",
            "unplug 3+20 member 1",
            "unplug 3+20 member 1 returns",
            "unplug +0 member 0 returns with-power",
            "leave 3+20 back 500",
            "lose-power +2 back 0",
            "lose-link 3+20 back 70",
            "restart-host 9+100",
            "flash program die 1 nth 12 life 0",
        ] {
            assert_eq!(line.parse::<Fault>().unwrap().to_string(), line);
        }
    }

    // Plans are edited by hand, so an error must name the mistake.
    #[test]
    fn mistakes_are_named() {
        let op = |line: &str| line.parse::<Op>().unwrap_err().to_string();
        assert_eq!(
            op("write 1 120"),
            "`write 1 120`: blocks must be `first+count`, with a count of at least 1"
        );
        assert_eq!(
            op("write 1 1+0"),
            "`write 1 1+0`: blocks must be `first+count`, with a count of at least 1"
        );
        assert_eq!(op("erase 1"), "`erase 1`: unknown operation");
        assert_eq!(op("flush 1 2"), "`flush 1 2`: there is an extra word");
        assert_eq!(op("trim 1"), "`trim 1`: a trim must have 1 to 256 ranges");
        assert_eq!("cut 3".parse::<Fault>().unwrap_err().to_string(), format!("`cut 3`: {ANCHOR}"));
    }
}
