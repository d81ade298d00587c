//! `byteway csd`: tables of a computational drive, and queries over them.

mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use byteway_clock::random::Rng;
use byteway_pushdown::error::SessionError;
use byteway_pushdown::load::{Keeps, LoadOptions};
use byteway_pushdown::program::RowProgram;
use byteway_pushdown::query::{Answer, Executor};
use byteway_pushdown::session::{Session, SessionOptions};
use byteway_pushdown::split::QueryShape;
use byteway_query::display::text;
use byteway_query::{Form, RecordBatch};
use byteway_results::output::print;
use byteway_serving::location::{DriveLocation, DriveSource};
use byteway_serving::tables::{Change, with_drive};
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_text::table::{bytes, grouped, time};
use byteway_text::units::Bytes;
use byteway_transfer::Method;
use byteway_workload::query::{Generator, RowSource};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Subcommand, ValueEnum};

use self::show::{Explained, QueryOutcome, Rows, compared, explained, figures, listed, print_rows};
use super::flags::{Tables, method, size};
use crate::interrupt::raised_by_signal;
use crate::terminal::Terminal;

pub(super) const EXAMPLES: &str = "\
A drive that keeps its tables in a directory; drive.toml is a device file with `personality = \"tables\"` in [drive]:
  byteway csd load particles a.parquet b.parquet --drive drive.toml --data tables.data
  byteway csd tables --drive drive.toml --data tables.data
  byteway csd query 'SELECT id, energy FROM particles WHERE energy > 1.3' --drive drive.toml --data tables.data

A drive that another process serves (`byteway serve drive.toml --vfio-user /tmp/drive`):
  byteway csd query 'SELECT COUNT(*) FROM particles' --vfio-user /tmp/drive

A drive in simulation, which is loaded first; --on both has the drive and this host execute it, and compares:
  byteway csd query 'SELECT COUNT(*) FROM t WHERE v02 > 0.5' --load t=t.parquet --on both
  byteway csd explain 'SELECT * FROM t WHERE v02 > 0.5' --load t=t.parquet
  byteway csd bench 'SELECT * FROM t WHERE v02 > 0.9' --load t=t.parquet --method inline

Without a file: rows of a generator (vpic, laghos, deep-water, and the eight tables of TPC-H):
  byteway csd load lineitem --generate tpch-lineitem --scale 0.1 --drive drive.toml --data tables.data
  byteway csd bench 'SELECT * FROM particles WHERE energy > 1.3' --load particles=vpic,rows=1000000 --on both

A program that filters the rows of a query, of the drive and of this host; filter.o is of `clang --target=bpf -O2 -c filter.c`:
  byteway csd query 'SELECT * FROM t' --load t=t.parquet --program filter.o --columns id,energy --on both

What a drive does: one table; columns, arithmetic, CASE; WHERE with comparisons, AND, OR, NOT, BETWEEN, IN, LIKE, IS NULL;
COUNT, SUM, MIN, MAX, AVG with GROUP BY. Of other queries it does a part for each table, and this host the rest: ORDER BY, OFFSET,
DISTINCT, COUNT(DISTINCT), many groups, inner joins by equality. `explain` shows which is which:
  byteway csd explain 'SELECT a.id FROM a JOIN b USING (id) ORDER BY a.x LIMIT 9' --load a=a.parquet --load b=b.parquet";

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Append rows of Parquet files, or of a generator, to a table; create the table if it does not exist.
    Load {
        /// Name of the table.
        table: String,
        /// Parquet files.
        #[arg(required_unless_present = "generate")]
        files: Vec<PathBuf>,
        /// Generator to use instead of files.
        #[arg(long, value_name = "GENERATOR", value_parser = generator(), conflicts_with = "files")]
        generate: Option<Generator>,
        /// With --generate: number of rows.
        #[arg(long, value_name = "N", requires = "generate", conflicts_with = "scale")]
        rows: Option<u64>,
        /// With --generate of a TPC-H table: scale; at 1, tpch-lineitem has about 6 million rows. Tables of
        /// the same scale have matching keys.
        #[arg(long, value_name = "SCALE", requires = "generate")]
        scale: Option<f64>,
        /// All rows or none, also of a table that exists: they go in one append. A new table is always loaded whole or not at all.
        #[arg(long, conflicts_with = "keep_part")]
        atomic: bool,
        /// Keep what a new table has got if the load fails or is interrupted.
        #[arg(long)]
        keep_part: bool,
        #[command(flatten)]
        drive: Drive,
    },
    /// List the tables.
    #[command(name = "tables")]
    List {
        /// Show columns, too.
        #[arg(long)]
        columns: bool,
        #[command(flatten)]
        drive: Drive,
    },
    /// Drop a table.
    Drop {
        /// Name of the table.
        table: String,
        /// Succeed even if the table does not exist.
        #[arg(long)]
        if_exists: bool,
        #[command(flatten)]
        drive: Drive,
    },
    /// Execute a query and print its rows.
    Query {
        #[command(flatten)]
        query: QueryText,
        #[command(flatten)]
        filter: Filter,
        /// Output format of the rows.
        #[arg(long, value_enum, default_value_t = Rows::Table)]
        format: Rows,
        #[command(flatten)]
        drive: Drive,
    },
    /// Explain what the drive executes of a query and what this host does, where each part would run, and
    /// why.
    Explain {
        #[command(flatten)]
        query: QueryText,
        #[command(flatten)]
        drive: Drive,
    },
    /// Execute a query several times on the drive, this host or both, and compare the costs.
    Bench {
        #[command(flatten)]
        query: QueryText,
        #[command(flatten)]
        filter: Filter,
        /// Number of executions.
        #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
        /// Output format.
        #[arg(long, value_enum, default_value_t = super::flags::OutputFormat::Table)]
        format: super::flags::OutputFormat,
        #[command(flatten)]
        drive: Drive,
    },
}

#[derive(clap::Args)]
struct QueryText {
    /// The query, in the form of --form.
    sql: String,
    /// Form in which the query is sent to the drive.
    #[arg(long, value_enum, default_value_t = FormName::Sql)]
    form: FormName,
    /// Where to execute the query.
    #[arg(long, value_enum, default_value_t = On::Drive)]
    on: On,
}

/// A row filter program.
#[derive(clap::Args)]
struct Filter {
    /// Run this eBPF program once per row; the query sees only rows for which it returns 1. The file contains
    /// instructions of 8 bytes, or is an ELF object (`clang --target=bpf -O2 -c`) of one function without
    /// relocations.
    #[arg(long, value_name = "FILE", requires = "columns")]
    program: Option<PathBuf>,
    /// Columns of numbers, dates or booleans that the program receives: R1 is the address of a struct of them
    /// in this order, followed by a byte per column that is 1 if the value is null.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', requires = "program")]
    columns: Vec<String>,
    /// Parameters of the program, which finds their address in R2: two hexadecimal digits per byte.
    #[arg(long, value_name = "HEX", requires = "program")]
    parameters: Option<String>,
}

impl Filter {
    /// Reads and verifies the program, if there is one.
    fn read(&self) -> Result<Option<RowProgram>, InputError> {
        let Some(path) = &self.program else { return Ok(None) };
        let parameters = self.parameters.as_deref().map_or(Ok(Vec::new()), hex)?;
        let file = std::fs::read(path).map_err(|error| {
            InputError::new(format!("{}: {error}", path.display()), "name a file of eBPF instructions")
        })?;
        let program = RowProgram::new(&file, self.columns.clone(), parameters);
        let named =
            |error: InputError| InputError::new(format!("{}: {}", path.display(), error.what), error.help);
        program.map(Some).map_err(named)
    }
}

/// Parses bytes, two hexadecimal digits each.
fn hex(text: &str) -> Result<Vec<u8>, InputError> {
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
        u8::from_str_radix(pair, 16).ok().filter(|_| pair.len() == 2)
    };
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
    let what = || format!("`--parameters {text}` is not bytes");
    bytes.ok_or_else(|| InputError::new(what(), "write two hexadecimal digits for each, as in 0a00"))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormName {
    /// SQL.
    Sql,
    /// Table and predicate only, as in 'particles energy > 1.3': all columns of the matching rows.
    Segment,
    /// SQL, sent to the drive in binary.
    Compact,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    /// The drive.
    Drive,
    /// This host, which reads the columns.
    Host,
    /// Whichever is estimated to take less time; with several tables, chosen per table.
    Adaptive,
    /// Both, one after the other; compare their rows.
    Both,
}

/// Parses the name of a generator.
fn generator() -> impl TypedValueParser<Value = Generator> {
    PossibleValuesParser::new(Generator::ALL.map(Generator::name))
        .map(|name| Generator::of_name(&name).expect("it is one of the names"))
}

/// Parses SOURCE of `--load NAME=SOURCE`: a generator with its amount after a comma, otherwise a file.
fn source_of(load: &str, source: &str) -> Result<RowSource, InputError> {
    let (name, amount) = source.split_once(',').map_or((source, None), |(name, amount)| (name, Some(amount)));
    let path = || RowSource::File(source.into());
    let Some(generator) = Generator::of_name(name) else { return Ok(path()) };
    let wrong = || {
        let what = format!("`--load {load}` has no valid number of rows or scale");
        InputError::new(what, format!("write `{name},rows=100000`, or `./{source}` for a file of that name"))
    };
    let (rows, scale) = match amount.and_then(|amount| amount.split_once('=')) {
        Some(("rows", rows)) => (Some(rows.parse().map_err(|_| wrong())?), None),
        Some(("scale", scale)) => (None, Some(scale.parse().map_err(|_| wrong())?)),
        _ => return Err(wrong()),
    };
    RowSource::drawn(generator, rows, scale)
}

/// Location and options of the drive.
#[derive(clap::Args)]
struct Drive {
    /// Device file of a drive whose data is in --data.
    #[arg(long, value_name = "FILE", requires = "data")]
    drive: Option<PathBuf>,
    /// Directory with the drive's data; create it if it does not exist.
    #[arg(long, value_name = "DIR", requires = "drive")]
    data: Option<PathBuf>,
    /// Folder with the socket of a served drive, as given to `byteway serve`.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["drive", "data"])]
    vfio_user: Option<PathBuf>,
    /// Namespace; default: the first one with tables.
    #[arg(long, value_name = "NSID")]
    namespace: Option<u32>,
    /// Load a table into a simulated drive, from a Parquet file or a generator with a number of rows or a
    /// scale: `t=t.parquet`, `particles=vpic,rows=100000`, `lineitem=tpch-lineitem,scale=0.1`. May be
    /// repeated; rows of the same table are appended.
    #[arg(long, value_name = "NAME=SOURCE", conflicts_with_all = ["drive", "data", "vfio_user"])]
    load: Vec<String>,
    /// Seed of generated rows; TPC-H rows do not depend on it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Profile of a simulated drive: a built-in one, or a path.
    #[arg(long, default_value = "modern-gen5")]
    profile: String,
    /// Capacity of a simulated drive.
    #[arg(long, value_parser = size, default_value = "4 GiB")]
    capacity: Bytes,
    /// Transfer method of tasks.
    #[arg(long, value_parser = method(), default_value = "prp")]
    method: Method,
    /// Clock rate of this host's modelled processor in GHz; work takes as many cycles as on the drive's
    /// cores.
    #[arg(long, value_name = "GHZ", default_value_t = 3.0)]
    host_ghz: f64,
    #[command(flatten)]
    tables: Tables,
    /// Show no progress bar.
    #[arg(long)]
    quiet: bool,
}

impl Drive {
    fn source(&self, programs: bool) -> DriveSource {
        match (&self.vfio_user, &self.drive, &self.data) {
            (Some(folder), ..) => DriveSource::At(DriveLocation::Served(folder.clone())),
            (None, Some(device), Some(data)) => {
                DriveSource::At(DriveLocation::Directory { device: device.clone(), data: data.clone() })
            }
            _ => DriveSource::Simulated { profile: self.profile.clone(), capacity: self.capacity, programs },
        }
    }

    fn options(&self, programs: bool) -> Result<SessionOptions, InputError> {
        if !(0.1..=100.0).contains(&self.host_ghz) {
            let what = format!("`--host-ghz {}` is out of range", self.host_ghz);
            return Err(InputError::new(what, "choose 0.1 to 100"));
        }
        let hertz = (self.host_ghz * 1e9) as u64;
        Ok(SessionOptions { nsid: self.namespace, method: self.method, hertz, programs })
    }

    /// Tables of --load, with the sources of their rows.
    fn loads(&self) -> Result<Vec<(String, RowSource)>, InputError> {
        let pair = |text: &String| match text.split_once('=') {
            Some((name, source)) if !name.is_empty() && !source.is_empty() => {
                Ok((name.to_owned(), source_of(text, source)?))
            }
            _ => Err(InputError::new(
                format!("`--load {text}` is not NAME=SOURCE"),
                "write `--load NAME=FILE`",
            )),
        };
        self.load.iter().map(pair).collect()
    }

    /// Loads the tables of --load and runs `work`.
    fn ask<T: 'static, W: Future<Output = Result<T, SessionError>> + 'static>(
        &self,
        change: Change,
        work: impl FnOnce(Session) -> W + 'static,
    ) -> anyhow::Result<T> {
        self.ask_with(change, false, work)
    }

    /// Like [`Drive::ask`], with or without programs.
    fn ask_with<T: 'static, W: Future<Output = Result<T, SessionError>> + 'static>(
        &self,
        change: Change,
        programs: bool,
        work: impl FnOnce(Session) -> W + 'static,
    ) -> anyhow::Result<T> {
        let loads = self.loads()?;
        let source = self.source(programs);
        let is_empty =
            matches!(source, DriveSource::Simulated { .. }) && loads.is_empty() && change == Change::None;
        if is_empty {
            let what = "a simulated drive has no tables";
            let help = "load some with --load NAME=FILE, or name a drive: --drive and --data, or --vfio-user";
            return Err(InputError::new(what, help).into());
        }
        let (quiet, rng) = (self.quiet, Rng::new(self.seed));
        let loaded = with_drive(&source, self.options(programs)?, change, move |session| async move {
            for (name, source) in &loads {
                let mut progress = Progress::parts(&Terminal { quiet }, "loading", 0);
                // The drive is a simulated one, which is gone with this command.
                let options =
                    LoadOptions { rng: &rng, keeps: Keeps::Appends, interrupt: &Interrupt::default() };
                session.load(name, std::slice::from_ref(source), &options, &mut progress).await?;
                progress.finish();
            }
            work(session).await
        });
        Ok(loaded?)
    }
}

impl QueryText {
    /// Form and bytes of the query.
    fn text(&self) -> (Form, Vec<u8>) {
        let form = match self.form {
            FormName::Sql => Form::Sql,
            FormName::Segment => Form::Segment,
            FormName::Compact => Form::Compact,
        };
        (form, self.sql.as_bytes().to_vec())
    }
}

/// Executes the command.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::Load { table, files, generate, rows, scale, atomic, keep_part, drive } => {
            let sources = match generate {
                Some(generator) => vec![RowSource::drawn(*generator, *rows, *scale)?],
                None => files.iter().cloned().map(RowSource::File).collect(),
            };
            let keeps = match (atomic, keep_part) {
                (true, _) => Keeps::Nothing,
                (_, true) => Keeps::Appends,
                _ => Keeps::Others,
            };
            load(table, sources, keeps, drive)
        }
        Action::List { columns, drive } => {
            let all = drive.ask(Change::None, async |session| session.tables().await)?;
            print(listed(&all, *columns, drive.tables))?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Drop { table, if_exists, drive } => {
            let (table, if_exists) = (table.clone(), *if_exists);
            drive.ask(Change::Tables, async move |session| {
                let is_there = session.tables().await?.iter().any(|there| there.record.name == table);
                if is_there || !if_exists { session.drop_table(&table).await } else { Ok(()) }
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Query { query, filter, format, drive } => {
            let asked = ask(query, filter, drive, 1)?;
            print_rows(&asked.answers[0], *format, drive.tables)?;
            if asked.answers.len() > 1 {
                eprint!("{}", compared(&asked, drive.tables));
                if !is_same(&asked.answers) {
                    anyhow::bail!("the drive's rows and this host's differ; this is a defect of Byteway");
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Explain { query, drive } => {
            let (form, text) = query.text();
            let found = drive.ask(Change::None, async move |session| {
                let shape = session.shape(form, &text).await?;
                explain(&session, shape).await
            })?;
            print(explained(&found, drive.tables))?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Bench { query, filter, count, format, drive } => {
            let asked = ask(query, filter, drive, *count)?;
            match format {
                super::flags::OutputFormat::Table => print(compared(&asked, drive.tables))?,
                super::flags::OutputFormat::Json => print(figures(&asked).to_string() + "\n")?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn load(table: &str, sources: Vec<RowSource>, keeps: Keeps, drive: &Drive) -> anyhow::Result<ExitCode> {
    let (name, quiet, rng) = (table.to_owned(), drive.quiet, Rng::new(drive.seed));
    let interrupt = raised_by_signal();
    let loaded = drive.ask(Change::Tables, async move |session| {
        let mut progress = Progress::parts(&Terminal { quiet }, "loading", 0);
        let options = LoadOptions { rng: &rng, keeps, interrupt: &interrupt };
        let loaded = session.load(&name, &sources, &options, &mut progress).await;
        progress.finish();
        loaded
    })?;
    let took = time(loaded.nanoseconds as f64);
    print(format!(
        "{} rows, {} in {} appends, took {took}; the table has {} rows\n",
        grouped(loaded.rows),
        bytes(loaded.bytes as f64),
        grouped(loaded.appends),
        grouped(loaded.rows_in_all)
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Executes a query `count` times at each selected place.
fn ask(query: &QueryText, filter: &Filter, drive: &Drive, count: u32) -> anyhow::Result<QueryOutcome> {
    let (form, text) = query.text();
    let on = query.on;
    let program = filter.read()?;
    if program.is_some() && on == On::Adaptive {
        let what = "`--on adaptive` with `--program`: the selectivity of a program cannot be estimated";
        return Err(InputError::new(what, "choose `--on drive`, `host` or `both`").into());
    }
    drive.ask_with(Change::None, program.is_some(), async move |session| {
        let shape = session.shape(form, &text).await?;
        if let (QueryShape::Split(query), Some(_)) = (&shape, &program) {
            let what = format!("`--program` needs a query that the drive executes as a whole: {}", query.why);
            return Err(
                InputError::new(what, "simplify the query, and process the returned rows elsewhere").into()
            );
        }
        let tables = match &shape {
            QueryShape::Whole { .. } => 1,
            QueryShape::Split(query) => query.tables.len(),
        };
        let all = |executor| vec![executor; tables];
        let mut found = None;
        let by = match on {
            On::Drive => vec![all(Executor::Drive)],
            On::Host => vec![all(Executor::Host)],
            On::Both => vec![all(Executor::Drive), all(Executor::Host)],
            On::Adaptive => {
                let explained = explain(&session, shape.clone()).await?;
                let by = explained.plans.iter().map(|plan| plan.choice).collect();
                found = Some(explained);
                vec![by]
            }
        };
        let mut answers = Vec::new();
        for by in by {
            for _ in 0..count {
                answers.push(match (&shape, &program) {
                    (QueryShape::Whole { task, table }, Some(program)) => {
                        session.perform_filtered(task, table, program, by[0]).await?
                    }
                    (QueryShape::Whole { task, table }, None) => {
                        session.perform_whole(task, table, by[0], None).await?
                    }
                    (QueryShape::Split(query), _) => session.perform(query, &by).await?,
                });
            }
        }
        Ok(QueryOutcome { explained: found, answers })
    })
}

async fn explain(session: &Session, shape: QueryShape) -> Result<Explained, SessionError> {
    let plans = match &shape {
        QueryShape::Whole { task, table } => vec![session.plan(task, table).await?],
        QueryShape::Split(query) => session.plans(query).await?,
    };
    Ok(Explained { shape, plans })
}

/// Whether all answers have the same rows in the same order.
fn is_same(answers: &[Answer]) -> bool {
    let rows = |answer: &Answer| -> Vec<Vec<Option<String>>> {
        let of = |batch: &RecordBatch| -> Vec<Vec<Option<String>>> {
            (0..batch.num_rows())
                .map(|row| batch.columns().iter().map(|column| text(column, row)).collect())
                .collect()
        };
        answer.batches.iter().flat_map(of).collect()
    };
    let first = rows(&answers[0]);
    answers[1..].iter().all(|answer| rows(answer) == first)
}
