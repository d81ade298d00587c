//! The live page: one file with its own scripts and styles. It fetches nothing but updates.

use byteway_text::html::{STYLE, THEME, script};
use std::fmt::Write as _;

/// The page's charts and updates.
const LIVE: &str = include_str!("live.js");
const MARKUP: &str = include_str!("live.html");
/// Style of what reports do not have.
const LIVE_STYLE: &str = include_str!("live.css");

/// Content security policy: the file's own scripts and styles, and updates from the server that it comes from.
pub const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: \
                          blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page as HTML: always the same.
pub fn render() -> String {
    let mut html = String::with_capacity(1 << 20);
    let style = format!("{STYLE}{LIVE_STYLE}");
    html.push_str(&MARKUP.replace("/* style */", &style));
    let _ = writeln!(html, "<!-- {} -->", script::NOTICE);
    html.push_str("<script type=\"application/gzip;base64\" id=\"plotly\">");
    script::write(&mut html);
    html.push_str("</script>\n");
    let _ = write!(html, "<script>\n{}{THEME}{}</script>\n</body>\n</html>\n", script::INFLATE, live());
    html
}

/// The script, with the names of stages and purposes as the drive has them.
fn live() -> String {
    let names = |names: Vec<&str>| serde_json::to_string(&names).expect("a text is JSON");
    let stages = crate::state::STAGES.map(|stage| stage.name()).to_vec();
    let purposes = byteway_link::Purpose::ALL.map(|purpose| purpose.name()).to_vec();
    LIVE.replace("[/* stages */]", &names(stages)).replace("[/* purposes */]", &names(purposes))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A page that needs anything from elsewhere shows nothing where there is no network.
    #[test]
    fn the_page_has_no_outside_resources() {
        let page = render();
        assert!(page.len() < 1_500_000, "{} bytes", page.len());
        let own = format!("{LIVE}{MARKUP}{LIVE_STYLE}");
        for outside in ["http://", "https://", "src=", "@import", "url(", "innerHTML", "eval("] {
            assert!(!own.contains(outside), "{outside}");
        }
        assert!(page.contains("\"doorbell\"") && page.contains("\"SQE fetch\""));
        assert!(!page.contains("/* stages */") && !page.contains("/* style */"));
        assert_eq!(page.matches("</script>").count(), page.matches("<script").count());
    }
}
