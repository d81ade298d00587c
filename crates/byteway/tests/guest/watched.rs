//! Drives that are watched in a browser while a guest uses them: the page moves with the guest's I/Os, and ends with the server's own figures.

#![allow(clippy::disallowed_methods, reason = "a browser is waited for by the wall clock")]

use crate::browser::{Browser, View};
use crate::guest::{Drives, Guest};
use crate::list::tell_apart;
use crate::server::Server;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Cells of the page's first table, a row for each drive.
const ROWS: &str = "[...document.querySelector('#tables table').querySelectorAll('tbody tr')].map((row) => \
                    [...row.cells].map((cell) => cell.textContent))";

/// Time limit of what the page is to show.
const SHOWS_WITHIN: Duration = Duration::from_secs(60);

/// All steps, with this kernel.
pub fn play(kernel: &str) {
    let Some(mut browser) = Browser::start() else { return };
    let mut guest = Guest::boot(kernel, 2, |folder| {
        Drives::Served(Server::start_with(folder, ["mapped", "trapped"], None, &["--http=127.0.0.1:0"]))
    });
    tell_apart(&mut guest, true);
    let Drives::Served(server) = &guest.drives else { unreachable!("they are served") };
    let url = server.ready()[0]["http"].as_str().unwrap().to_owned();
    let mut page = browser.open_at(&url, View { width: 1280, print: false, dark: false });
    guest.run(
        "begins to write and to read what it wrote",
        30,
        "fio --name=load --filename=$A --rw=randrw --bs=4k --iodepth=16 --size=64m --time_based --runtime=8 $verified \
         >/tmp/fio 2>&1 </dev/null &\necho $! >/tmp/pid\nsleep 2",
    );
    // The drives' rows by the guest's addresses are in the order of their files.
    let mut writes = Vec::new();
    let begun = Instant::now();
    while writes.len() < 3 {
        assert!(begun.elapsed() < SHOWS_WITHIN, "{writes:?}\n{}", page.evaluate("document.body.innerText"));
        let shown = digits(&page.evaluate(ROWS)[0][5]);
        if writes.last().is_none_or(|last| shown > *last) && shown > 0 {
            writes.push(shown);
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    guest.run(
        "what was written was read",
        60,
        "while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.2; done\n! grep -i 'verify\\|error' /tmp/fio || fail \"$(cat /tmp/fio)\"\nsync",
    );
    assert_eq!(page.inspect(), 8, "all charts are drawn");
    let Drives::Served(mut server) = guest.power_off() else { unreachable!("they are served") };
    let served = server.end_with_figures();
    let begun = Instant::now();
    let said = loop {
        let said = page.evaluate("document.getElementById('said').textContent");
        let said = said.as_str().unwrap().to_owned();
        if said.starts_with("The drives have ended") || begun.elapsed() > SHOWS_WITHIN {
            break said;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(said.contains("ended; figures of "), "{said}");
    let rows = page.evaluate(ROWS);
    for (row, served) in rows.as_array().unwrap().iter().zip(&served) {
        assert_eq!(row[0], served["name"], "{rows:#}");
        let shown = [&row[1], &row[2], &row[3], &row[5], &row[7]].map(digits);
        let figures = [
            &served["clients"],
            &served["commands"],
            &served["reads"]["commands"],
            &served["writes"]["commands"],
            &served["resets"],
        ];
        assert_eq!(shown, figures.map(|figure| figure.as_u64().unwrap()), "{rows:#}\n{served:#}");
    }
    assert!(digits(&rows[0][5]) >= writes[2] && writes[0] > 0);
}

/// The number that a cell shows.
fn digits(text: &Value) -> u64 {
    let text = text.as_str().unwrap();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{text}"))
}
