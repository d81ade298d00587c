//! Data directories of the system: created, reopened, refused, verified, and shrunk by erases.

use crate::files::fixture::{Base, Seen, TUNING, batch, format, open, run};
use byteway_flash::file::{Directory, DirectoryError, Finding, Format, SimulatedFiles, check, look};
use byteway_flash::{BlockId, Flash, Medium, Priority};
use std::rc::Rc;
use std::sync::Arc;

async fn fill(flash: &Flash, block: u32, first: u64) {
    for stripe in 0..4 {
        flash.program(BlockId(block), stripe, batch(first + u64::from(stripe)), Priority::HostProgram).await;
    }
}

// A simulation alone would not show that the system calls are right.
#[test]
fn a_directory_of_the_system_keeps_what_was_written_and_gives_back_what_was_erased() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/drive");
    let directory = Directory::take(&path).unwrap();
    assert!(matches!(Directory::take(&path), Err(DirectoryError::InUse { .. })));
    assert!(matches!(Directory::look(&path), Err(DirectoryError::InUse { .. })));
    let (medium, opened) = open(Arc::new(directory)).unwrap();
    assert!(opened.created && opened.clean && opened.starts == 1, "{opened:?}");
    let (seen, medium) = run(medium, async |flash, _| {
        fill(&flash, 0, 1).await;
        fill(&flash, 2, 5).await;
        flash.sync().await;
        (Seen::of(&flash), flash.power_off(false))
    })
    .unwrap();
    drop(medium); // as if it were killed
    let used = look(&Directory::look(&path).unwrap()).unwrap().disk_bytes;
    let (medium, opened) = open(Arc::new(Directory::take(&path).unwrap())).unwrap();
    assert!(!opened.clean && opened.stripes_found > 0, "{opened:?}");
    let medium = run(medium, async move |flash, _| {
        assert_eq!(Seen::of(&flash), seen);
        flash.erase(BlockId(0)).await;
        flash.erase(BlockId(2)).await;
        flash.power_off(false)
    })
    .unwrap();
    medium.close().unwrap();
    let summary = look(&Directory::look(&path).unwrap()).unwrap();
    assert!(summary.opened.clean && summary.disk_bytes < used, "{} of {used}", summary.disk_bytes);
    assert_eq!((summary.stripes, summary.erases.iter().sum::<u32>()), (2, 2));
}

// A wrong directory must not lose its contents, and the error must say what is wrong.
#[test]
fn what_is_not_this_drives_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thesis.tex"), "all my work").unwrap();
    let message = open(Arc::new(Directory::take(folder.path()).unwrap())).err().unwrap().to_string();
    assert!(message.contains("thesis.tex"), "{message}");
    std::fs::remove_file(folder.path().join("thesis.tex")).unwrap();
    drop(open(Arc::new(Directory::take(folder.path()).unwrap())).unwrap());
    let text = std::fs::read_to_string(folder.path().join("format")).unwrap();
    std::fs::write(folder.path().join("format"), text.replace("version\t4", "version\t9")).unwrap();
    let message = open(Arc::new(Directory::take(folder.path()).unwrap())).err().unwrap().to_string();
    assert!(message.contains("version 9"), "{message}");
    std::fs::remove_file(folder.path().join("checkpoint")).unwrap();
    std::fs::write(folder.path().join("format"), text).unwrap();
    let message = open(Arc::new(Directory::take(folder.path()).unwrap())).err().unwrap().to_string();
    assert!(message.contains("`checkpoint` is missing"), "{message}");
}

// Corruption by the disk must be found by a verification, and never be read as data.
#[test]
fn a_changed_byte_is_found() {
    let files = SimulatedFiles::new();
    let (medium, _) = open(Arc::new(files.clone())).unwrap();
    let medium = run(medium, async |flash, _| {
        fill(&flash, 0, 1).await;
        flash.power_off(false)
    })
    .unwrap();
    medium.close().unwrap();
    let checked = |files: &SimulatedFiles| check(files, |_: &Format| 1000, |_, _| true).unwrap();
    let good = checked(&files);
    assert_eq!((good.findings_total, good.units), (0, 16), "{:?}", good.findings);
    assert_eq!(good.format, format());
    assert!(files.rot("data", 4096 + 77)); // stripe 1 to be programmed, unit 1: bytes
    assert!(files.rot("spare", 3 * 64 + 20));
    let bad = checked(&files);
    assert!(matches!(bad.findings[..], [Finding::Content { unit: 1, .. }, Finding::Record { unit: 3, .. }]));
    let (medium, _) = open(Arc::new(files)).unwrap();
    run(medium, async |flash, _| {
        let (mut out, ppas) = (Vec::new(), [byteway_flash::Ppa(1)]);
        assert!(flash.read(&ppas, Priority::HostRead, &mut out).await.failed);
    })
    .unwrap();
}

// A directory created by an older program must keep working, and then have the parameters that the old one
// lacked.
#[test]
fn a_directory_of_version_1_is_opened_and_says_more_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    let directory = || Arc::new(Directory::take(folder.path()).unwrap());
    let opened = |format: &Format| {
        let opened = Medium::open(directory(), format, Rc::new(Base), TUNING);
        opened.map(|(_, opened)| opened.starts).map_err(|error| error.to_string())
    };
    let bits = |bits: &str| {
        let mut format = format();
        format.traits.push(("page_types".to_owned(), bits.to_owned()));
        format
    };
    drop(open(directory()).unwrap());
    let path = folder.path().join("format");
    let text = std::fs::read_to_string(&path).unwrap().replace("version\t4", "version\t1");
    let (body, _) = text.rsplit_once("crc\t").unwrap();
    std::fs::write(&path, format!("{body}crc\t{:08x}\n", crc32c::crc32c(body.as_bytes()))).unwrap();
    assert_eq!(look(&*directory()).unwrap().version, 1);
    assert_eq!(opened(&bits("3")), Ok(2));
    let summary = look(&*directory()).unwrap();
    assert_eq!((summary.version, summary.format), (4, bits("3")));
    assert_eq!(opened(&bits("3")), Ok(3));
    let refused = opened(&bits("2")).unwrap_err();
    assert!(refused.contains("page_types is 3 there and 2 here"), "{refused}");
}
