//! Claims that follow from the paper's constants by arithmetic.

use crate::error::Measured;
use crate::judgement::Measurement;
use crate::paper::Recipe;
use crate::point::Points;
use byteway_jbof::decision::descriptor::Utilisation;
use byteway_jbof::decision::policy::{Load, Weight, shares};
use byteway_results::cost::{Bill, Parts, Prices};

pub(super) const RECIPES: [Recipe; 5] = [
    Recipe { id: "ES02", points: Vec::new, measure: saving },
    Recipe { id: "ES03", points: Vec::new, measure: compute_share },
    Recipe { id: "ES14", points: Vec::new, measure: lifetime },
    Recipe { id: "ES20", points: Vec::new, measure: map_caches },
    Recipe { id: "ES55", points: Vec::new, measure: redirected },
];

fn saving(_: &Points) -> Measured<Measurement> {
    let prices = Prices::default();
    let conv = Bill::of(&Parts::whole(2.0), &prices).total();
    let espresso = Bill::of(&Parts { has_cxl: true, ..Parts::whole(2.0).with_share(0.5) }, &prices).total();
    Ok(Measurement::of([100.0 * (1.0 - espresso / conv)])
        .detail(format!("Conv {conv:.2} dollars, Espresso {espresso:.2}.")))
}

fn compute_share(_: &Points) -> Measured<Measurement> {
    let bill = Bill::of(&Parts::whole(4.0), &Prices::default());
    Ok(Measurement::of([100.0 * bill.compute / bill.total()]).detail(format!(
        "{:.2} of {:.2} dollars.",
        bill.compute,
        bill.total()
    )))
}

fn lifetime(_: &Points) -> Measured<Measurement> {
    Ok(Measurement::of([100.0 * (1.0 - 1.0 / 1.29)]).detail("One drive write per day becomes 1.29."))
}

fn map_caches(_: &Points) -> Measured<Measurement> {
    let (drives, terabytes, dram) = (12.0, 4.0, 0.25);
    Ok(Measurement::of([drives * terabytes * dram]))
}

/// The share redirected to a lender for `N_borrow / N_lend` = 3: the lender is then three times as busy.
fn redirected(_: &Points) -> Measured<Measurement> {
    let even = Weight { own: 1, all: 1 };
    let load = |busy| Load { utilisation: Utilisation::of(busy), weight: even };
    Ok(Measurement::of([100.0 * shares(load(0.2), &[load(0.6)])[0]]))
}
