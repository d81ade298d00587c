//! The sections on the host: processors and memory by component, arrays, JBOFs.

use super::flow::{elapsed, with_warmup};
use super::steps::Steps;
use crate::{Axis, Chart, Figure, Ink, Section, Table, Unit};
use byteway_results::host::{HostComponent, HostMemory};
use byteway_results::results::{HostPoint, Point};
use byteway_results::summary::Summary;

/// An array on the host, if there is one.
pub(super) fn array(summary: &Summary) -> Option<Section> {
    let array = summary.array.as_ref()?;
    Some(Section::new("The array").text(format!("{}.", array.sentence())).table(Table::from(array.table())))
}

/// Lending, cost and energy of a JBOF, if the drives are in one.
pub(super) fn jbof(summary: &Summary) -> Option<Section> {
    let jbof = summary.jbof.as_ref()?;
    Some(Section::new("The JBOF").text(format!("{}.", jbof.sentence())).table(Table::from(jbof.table())))
}

/// Cost of I/O on the host, if it was followed.
pub(super) fn host(steps: &Steps, summary: &Summary) -> Option<Section> {
    let host = summary.host.as_ref()?;
    let mut section = Section::new("The host")
        .text(format!(
            "The host has {} processors. Their use by its software is shown by component; 100 % is one fully busy processor. \
             Memory is that of the modeled structures, not of this simulation.",
            host.processors
        ))
        .table(Table::from(host.processor_table()))
        .table(Table::from(host.memory_table()));
    let of = |point: &Point, value: &dyn Fn(&HostPoint) -> Option<f64>| {
        let host = point.drive.as_ref().and_then(|drive| drive.host.as_ref());
        host.and_then(value).unwrap_or(f64::NAN)
    };
    let busy = |point: &Point, index: usize| of(point, &|host| host.busy.get(index).copied());
    let shown: Vec<usize> = (0..HostComponent::ALL.len())
        .filter(|index| steps.points.iter().any(|point| busy(point, *index) > 0.0))
        .collect();
    if shown.is_empty() {
        return Some(section);
    }
    let mut chart = Chart::new(elapsed(), Axis::linear("processors busy", Unit::Share));
    for (place, index) in shown.into_iter().enumerate() {
        let line = steps.line(|point| busy(point, index));
        chart = chart.steps(HostComponent::ALL[index].name(), Ink::nth(place), line);
    }
    section = section.figure(Figure::new(
        "Host processors over time",
        "Mean number of processors busy with each component in a step.",
        with_warmup(chart, steps),
    ));
    let mut chart = Chart::new(elapsed(), Axis::linear("memory", Unit::Bytes));
    let names = HostMemory::default().parts();
    for (place, (name, _)) in names.into_iter().enumerate() {
        let bytes = |point: &Point| of(point, &|host| host.memory.get(place).map(|bytes| *bytes as f64));
        if steps.points.iter().any(|point| bytes(point) > 0.0) {
            chart = chart.steps(name, Ink::nth(place), steps.line(bytes));
        }
    }
    Some(section.figure(Figure::new(
        "Host memory over time",
        "Memory held by each component at the end of a step.",
        with_warmup(chart, steps),
    )))
}
