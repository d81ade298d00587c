//! YCSB's core workloads: their parameter files, and how they choose records (Cooper and others, SoCC 2010).
//!
//! A record is one key-value pair: its fields are concatenated in the value, and an update stores all of them
//! (YCSB's `writeallfields`; there is no command that stores one field). Keys are hashed unless `insertorder`
//! is `ordered`, and have the length in the scenario instead of the text "user" with decimals.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use byteway_clock::random::{Stream, Zipf};

use super::file::refused;
use super::op::Verb;
use super::value::VALUE_BYTES_MAX;
use byteway_text::error::InputError;
use byteway_text::file::read_small_file;
use byteway_text::units::excerpt;

/// Skew of the zipfian choice.
const THETA: f64 = 0.99;

/// Ranks of a zipfian choice, before the rank is hashed to a record: independent of the number of records, so
/// that inserts do not change which records are popular.
const RANKS: u64 = 10_000_000_000;

/// Records, at most.
const RECORDS_MAX: u64 = 1 << 40;

/// Longest scan, in records.
const SCAN_MAX: u32 = 1 << 20;

/// Selection of an operation's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Uniform.
    Uniform,
    /// Zipfian: few records are very popular, scattered over all.
    Zipfian,
    /// Latest: newer records are more popular.
    Latest,
}

/// Distribution of scan lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLengths {
    /// Uniform.
    Uniform,
    /// Zipfian: short scans are more frequent.
    Zipfian,
}

/// The parameters of a workload file.
#[derive(Clone, Debug, PartialEq)]
pub struct Ycsb {
    /// Initial number of records.
    pub records: u64,
    /// Number of operations.
    pub operations: u64,
    /// Operations with their shares, which need not sum to 1.
    pub mix: Vec<(Verb, f64)>,
    /// Selection of records.
    pub choice: Choice,
    /// Whether keys are ordered like insertions.
    pub is_ordered: bool,
    /// Length of a value in bytes: all fields.
    pub value_bytes: u32,
    /// Shortest and longest scan.
    pub scan: (u32, u32),
    /// Distribution of scan lengths.
    pub scan_lengths: ScanLengths,
}

impl Ycsb {
    /// Reads a workload file: a Java properties file, of which the lines `key=value` count.
    ///
    /// # Errors
    /// It cannot be read, a value is invalid, or it requires something unsupported.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let text = read_small_file(path, "YCSB workload")?;
        Ycsb::parse(&text).map_err(|what| refused(path, &what))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let properties = Properties(text);
        let mix = [
            ("readproportion", Verb::Retrieve, 0.95),
            ("updateproportion", Verb::Store, 0.05),
            ("insertproportion", Verb::Insert, 0.0),
            ("scanproportion", Verb::Scan, 0.0),
            ("readmodifywriteproportion", Verb::Modify, 0.0),
        ];
        let mix = mix.into_iter().map(|(key, verb, usual)| {
            let share: f64 = properties.number(key, usual)?;
            match (0.0..=1e9).contains(&share) {
                true => Ok((verb, share)),
                false => Err(format!("`{key}` is {share}, and no proportion")),
            }
        });
        let mix = mix.collect::<Result<Vec<_>, _>>()?;
        if mix.iter().all(|(_, share)| *share == 0.0) {
            return Err("every proportion is 0".to_owned());
        }
        let choice = match properties.text("requestdistribution").unwrap_or("uniform") {
            "uniform" => Choice::Uniform,
            "zipfian" => Choice::Zipfian,
            "latest" => Choice::Latest,
            other => {
                return Err(properties.unknown("requestdistribution", other, "uniform, zipfian, latest"));
            }
        };
        let scan_lengths = match properties.text("scanlengthdistribution").unwrap_or("uniform") {
            "uniform" => ScanLengths::Uniform,
            "zipfian" => ScanLengths::Zipfian,
            other => return Err(properties.unknown("scanlengthdistribution", other, "uniform, zipfian")),
        };
        let is_ordered = match properties.text("insertorder").unwrap_or("hashed") {
            "hashed" => false,
            "ordered" => true,
            other => return Err(properties.unknown("insertorder", other, "hashed, ordered")),
        };
        if let Some(other) = properties.text("fieldlengthdistribution").filter(|other| *other != "constant") {
            return Err(properties.unknown("fieldlengthdistribution", other, "constant"));
        }
        let fields: u64 = properties.number("fieldcount", 10)?;
        let field_bytes: u64 = properties.number("fieldlength", 100)?;
        let value_bytes = fields.saturating_mul(field_bytes);
        if value_bytes > u64::from(VALUE_BYTES_MAX) {
            return Err(format!("its records of {value_bytes} B are longer than a value can be"));
        }
        let records: u64 = properties.number("recordcount", 0)?;
        if !(1..=RECORDS_MAX).contains(&records) {
            return Err(format!("`recordcount` is {records}, and can be 1 to 2^40"));
        }
        let scan = (properties.number("minscanlength", 1)?, properties.number("maxscanlength", 1000)?);
        if scan.0 < 1 || scan.0 > scan.1 || scan.1 > SCAN_MAX {
            return Err(format!("scans of {} to {} records can't be", scan.0, scan.1));
        }
        Ok(Ycsb {
            records,
            operations: properties.number("operationcount", 1000)?,
            mix,
            choice,
            is_ordered,
            value_bytes: value_bytes as u32,
            scan,
            scan_lengths,
        })
    }
}

struct Properties<'t>(&'t str);

impl<'t> Properties<'t> {
    /// The last line that sets `key`.
    fn text(&self, key: &str) -> Option<&'t str> {
        let lines = self.0.lines().map(str::trim).filter(|line| !line.starts_with(['#', '!']));
        let pairs = lines.filter_map(|line| line.split_once(['=', ':']));
        pairs.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next_back()
    }

    fn number<T: std::str::FromStr>(&self, key: &str, usual: T) -> Result<T, String> {
        let Some(text) = self.text(key) else { return Ok(usual) };
        text.parse().map_err(|_| format!("`{key}` is `{}`, and no such number", excerpt(text)))
    }

    fn unknown(&self, key: &str, value: &str, known: &str) -> String {
        format!("`{key}={}` is not there; there are: {known}", excerpt(value))
    }
}

/// The records that the workers of a job have inserted. A record can be selected when it and all records
/// before it are stored, because the result of reading a record in flight is undefined.
#[derive(Debug, Default)]
pub struct Inserted {
    next: Cell<u64>,
    stored: Cell<u64>,
    beyond: RefCell<BTreeSet<u64>>,
}

impl Inserted {
    /// With this initial number of records.
    pub fn new(records: u64) -> Rc<Self> {
        Rc::new(Inserted { next: Cell::new(records), stored: Cell::new(records), ..Inserted::default() })
    }

    /// Takes the number of a new record.
    pub(super) fn take(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    /// The new record with this number is stored, or its store failed.
    pub fn end(&self, number: u64) {
        let mut beyond = self.beyond.borrow_mut();
        beyond.insert(number);
        while beyond.remove(&self.stored.get()) {
            self.stored.set(self.stored.get() + 1);
        }
    }

    /// Number of records that can be selected.
    pub fn count(&self) -> u64 {
        self.stored.get()
    }
}

/// Selects records.
pub(super) struct Chooser {
    choice: Choice,
    inserted: Rc<Inserted>,
    /// Number of records, and the distribution over them.
    zipf: (u64, Zipf),
    /// Expected number of records at the end.
    expected: u64,
}

impl Chooser {
    /// `inserts`: expected number of new records.
    pub(super) fn new(choice: Choice, inserted: Rc<Inserted>, inserts: u64) -> Self {
        let count = inserted.count();
        let ranks = if choice == Choice::Latest { count } else { RANKS };
        Chooser { choice, zipf: (ranks, zipf(ranks)), expected: count.saturating_add(inserts), inserted }
    }

    pub(super) fn draw(&mut self, stream: &mut Stream) -> u64 {
        let count = self.inserted.count();
        match self.choice {
            Choice::Uniform => stream.below(count),
            // A future record already has its popularity, so draw again.
            Choice::Zipfian => loop {
                let number = hash(self.zipf.1.sample(stream)) % self.expected;
                if number < count {
                    break number;
                }
            },
            Choice::Latest => {
                if self.zipf.0 != count {
                    self.zipf = (count, zipf(count));
                }
                count - 1 - self.zipf.1.sample(stream)
            }
        }
    }
}

fn zipf(ranks: u64) -> Zipf {
    Zipf::new(ranks.clamp(1, RECORDS_MAX), THETA).expect("1 to 2^40 ranks")
}

/// FNV-1a of the eight bytes.
fn hash(number: u64) -> u64 {
    number.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Draws the number of records in a scan.
pub(super) struct ScanRuler {
    first: u32,
    count: u32,
    zipf: Option<Zipf>,
}

impl ScanRuler {
    pub(super) fn new((min, max): (u32, u32), lengths: ScanLengths) -> Self {
        let count = max - min + 1;
        let zipf = (lengths == ScanLengths::Zipfian).then(|| zipf(count.into()));
        ScanRuler { first: min, count, zipf }
    }

    pub(super) fn draw(&self, stream: &mut Stream) -> u32 {
        let more = match &self.zipf {
            Some(zipf) => zipf.sample(stream),
            None => stream.below(self.count.into()),
        };
        self.first + more as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    const E: &str = "# Workload E\nrecordcount=1000\noperationcount = 500\nreadproportion=0\nupdateproportion=0\n\
                     scanproportion=0.95\ninsertproportion:0.05\nrequestdistribution=zipfian\nmaxscanlength=100\n";

    // A parameter that is misread or ignored makes another workload with the same name.
    #[test]
    fn a_workload_is_what_its_file_says() {
        let read = Ycsb::parse(E).unwrap();
        assert_eq!((read.records, read.operations, read.value_bytes, read.scan), (1000, 500, 1000, (1, 100)));
        assert_eq!((read.choice, read.is_ordered), (Choice::Zipfian, false));
        let share = |verb| read.mix.iter().find(|(of, _)| *of == verb).unwrap().1;
        assert_eq!((share(Verb::Scan), share(Verb::Insert), share(Verb::Retrieve)), (0.95, 0.05, 0.0));
        for (more, named) in [
            ("requestdistribution=hotspot", "hotspot"),
            ("recordcount=0", "recordcount"),
            ("recordcount=many", "many"),
            ("maxscanlength=0", "scans"),
            ("fieldlength=99999999999", "longer"),
            ("fieldlengthdistribution=zipfian", "fieldlengthdistribution"),
            ("readproportion=-1", "readproportion"),
        ] {
            let error = Ycsb::parse(&format!("{E}{more}\n")).unwrap_err();
            assert!(error.contains(named), "{more}: {error}");
        }
    }

    // A selected record that is not yet stored would not be found; one that can never be selected would make
    // "latest" the oldest.
    #[test]
    fn only_records_that_are_there_are_chosen() {
        let inserted = Inserted::new(100);
        let mut stream = Rng::new(5).stream("records");
        for choice in [Choice::Uniform, Choice::Zipfian, Choice::Latest] {
            let mut chooser = Chooser::new(choice, inserted.clone(), 1000);
            for _ in 0..50 {
                let count = inserted.count();
                assert!((0..100).all(|_| chooser.draw(&mut stream) < count), "{choice:?}");
                inserted.end(inserted.take());
                assert_eq!(inserted.count(), count + 1);
            }
        }
        let (first, second) = (inserted.take(), inserted.take());
        inserted.end(second);
        assert_eq!(inserted.count(), first);
        inserted.end(first);
        assert_eq!(inserted.count(), second + 1);
    }

    // Zipfian: the most popular of 1000 records has 1 / H(10^10; 0.99) = 4 % of the accesses. Latest: the newest 1 /
    // H(1000; 0.99) = 13 %.
    #[test]
    fn popular_records_are_as_popular_as_zipf_says() {
        let share = |choice| {
            let mut chooser = Chooser::new(choice, Inserted::new(1000), 0);
            let mut stream = Rng::new(6).stream("records");
            let mut counts = vec![0u32; 1000];
            (0..100_000).for_each(|_| counts[chooser.draw(&mut stream) as usize] += 1);
            let most = counts.iter().max().copied().unwrap_or(0);
            (f64::from(most) / 1e5, counts[999] == most)
        };
        let (most, _) = share(Choice::Zipfian);
        assert!((0.035..0.05).contains(&most), "{most}");
        let (most, is_newest) = share(Choice::Latest);
        assert!((0.12..0.14).contains(&most) && is_newest, "{most}");
        let (most, _) = share(Choice::Uniform);
        assert!(most < 0.002, "{most}");
    }

    // Scans that are all as long as the longest would read twice as much.
    #[test]
    fn scans_are_as_long_as_the_file_says() {
        let mut stream = Rng::new(6).stream("scans");
        let uniform = ScanRuler::new((1, 100), ScanLengths::Uniform);
        let drawn: Vec<u32> = (0..100_000).map(|_| uniform.draw(&mut stream)).collect();
        let mean = drawn.iter().sum::<u32>() as f64 / 1e5;
        assert!((mean - 50.5).abs() < 0.5 && drawn.iter().all(|length| (1..=100).contains(length)), "{mean}");
        let zipfian = ScanRuler::new((5, 100), ScanLengths::Zipfian);
        let drawn: Vec<u32> = (0..10_000).map(|_| zipfian.draw(&mut stream)).collect();
        assert!(drawn.iter().filter(|length| **length == 5).count() > 1500);
    }
}
