//! The chart: a panel of bars for each of W1 (64 tasks) to W4, narrow enough for a phone, on a ground of its own.

use crate::{
    report::Report,
    results::{Case, grouped},
    subjects::{Role, Subject},
};
use anyhow::Result;
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

const WIDTH: i32 = 600;
const MARGIN: i32 = 18;
/// Where the bars begin, and how long the longest is.
const BARS: i32 = 218;
const LONGEST: i32 = 290;
const ROW: i32 = 22;
/// Above the panels, above the bars of a panel, and below all.
const TITLE: i32 = 92;
const HEAD: i32 = 40;
const FOOT: i32 = 44;

const GROUND: RGBColor = RGBColor(255, 255, 255);
const INK: RGBColor = RGBColor(31, 35, 40);
const FAINT: RGBColor = RGBColor(89, 99, 110);

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// One bar: its label, its value, whose it is.
struct Bar<'a> {
    subject: &'a Subject,
    value: f64,
}

/// The chart as SVG.
pub fn svg(report: &Report) -> Result<String> {
    let panels = panels(report);
    let height = TITLE + FOOT + panels.iter().map(|(_, bars)| HEAD + ROW * bars.len() as i32).sum::<i32>();
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH as u32, height as u32)).into_drawing_area();
        root.fill(&GROUND)?;
        head(&root, report)?;
        let mut top = TITLE;
        for (case, bars) in &panels {
            panel(&root, top, *case, bars)?;
            top += HEAD + ROW * bars.len() as i32;
        }
        let foot = "WAL, but effectum NORMAL (DELETE), which is as it ships. honker runs handlers in its claiming thread.";
        write(&root, foot, (MARGIN, top + 22), 11, &FAINT, HPos::Left, false)?;
        root.present()?;
    }
    Ok(text)
}

/// The cases that were measured, the best bar first.
fn panels<'a>(report: &'a Report) -> Vec<(Case, Vec<Bar<'a>>)> {
    let panel = |case| {
        let bar = |(number, subject)| {
            let value = report.results.median(number, case, "rate")?;
            Some(Bar { subject, value })
        };
        let mut bars: Vec<_> = report.subjects.iter().enumerate().filter_map(bar).collect();
        bars.sort_by(|one, other| other.value.total_cmp(&one.value));
        (case, bars)
    };
    let panels = [Case::Tasks, Case::Bulk, Case::Drain, Case::Both].map(panel);
    panels.into_iter().filter(|(_, bars)| !bars.is_empty()).collect()
}

fn head(root: &Area, report: &Report) -> Result<()> {
    let quick = if report.quick { " — a quick look only" } else { "" };
    let title = format!("Jobs a second: jobq, its peers, and SQLite's limit{quick}");
    write(root, &title, (MARGIN, 28), 19, &INK, HPos::Left, true)?;
    let how =
        format!("{} cores, medians of {} rounds; longer is better", report.machine.cores, report.rounds);
    write(root, &how, (MARGIN, 50), 13, &FAINT, HPos::Left, false)?;
    let legend = [
        (Role::Ours, "jobq"),
        (Role::Limit, "limit"),
        (Role::Peer { across: false }, "peers, FULL: outlives a power cut"),
        (Role::Other, "paler: the latest jobs may not"),
    ];
    let mut left = MARGIN;
    for (role, text) in legend {
        root.draw(&Rectangle::new(
            [(left, 66), (left + 12, 78)],
            colour(role, role != Role::Other).filled(),
        ))?;
        write(root, text, (left + 17, 72), 13, &INK, HPos::Left, false)?;
        left += 38 + 7 * text.len() as i32;
    }
    Ok(())
}

fn panel(root: &Area, top: i32, case: Case, bars: &[Bar]) -> Result<()> {
    write(root, in_words(case), (MARGIN, top + 24), 15, &INK, HPos::Left, true)?;
    let most = bars.iter().map(|bar| bar.value).fold(1.0, f64::max);
    for (place, bar) in bars.iter().enumerate() {
        let middle = top + HEAD + ROW * place as i32 + ROW / 2;
        let end = BARS + ((bar.value / most * f64::from(LONGEST)).round() as i32).max(1);
        let ours = matches!(bar.subject.role, Role::Ours | Role::OursNormal);
        let paint = colour(bar.subject.role, bar.subject.outlives_power_cuts());
        write(root, &name(bar.subject), (BARS - 8, middle), 14, &INK, HPos::Right, ours)?;
        root.draw(&Rectangle::new([(BARS, middle - 8), (end, middle + 8)], paint.filled()))?;
        write(root, &grouped(bar.value), (end + 6, middle), 14, &INK, HPos::Left, ours)?;
    }
    let bottom = top + HEAD + ROW * bars.len() as i32;
    root.draw(&PathElement::new([(BARS, top + HEAD - 2), (BARS, bottom + 2)], FAINT.stroke_width(1)))?;
    Ok(())
}

fn in_words(case: Case) -> &'static str {
    match case {
        Case::Tasks => "W1  Enqueue one by one, 64 tasks at once",
        Case::Bulk => "W2  Enqueue 1,000 at a time",
        Case::Drain => "W3  Run a backlog of 20,000",
        _ => "W4  Enqueue and run at once, 64 tasks and a worker",
    }
}

/// The name and the durability; the journal only where it is not the log.
fn name(subject: &Subject) -> String {
    match subject.durability.split_once(", ") {
        Some(("WAL", synchronous)) => format!("{} {synchronous}", subject.name),
        Some((journal, synchronous)) => format!("{} {synchronous} ({journal})", subject.name),
        None => format!("{} {}", subject.name, subject.durability),
    }
}

fn colour(role: Role, full: bool) -> RGBColor {
    match (role, full) {
        (Role::Ours | Role::OursNormal, true) => RGBColor(207, 81, 13),
        (Role::Ours | Role::OursNormal, false) => RGBColor(244, 156, 92),
        (Role::Limit | Role::LimitNormal, true) => RGBColor(110, 119, 129),
        (Role::Limit | Role::LimitNormal, false) => RGBColor(190, 197, 205),
        (Role::Peer { .. } | Role::Other, true) => RGBColor(36, 98, 190),
        (Role::Peer { .. } | Role::Other, false) => RGBColor(140, 180, 235),
    }
}

/// Writes a text whose middle line is at `at`.
fn write(
    root: &Area,
    text: &str,
    at: (i32, i32),
    size: i32,
    colour: &RGBColor,
    side: HPos,
    bold: bool,
) -> Result<()> {
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    // SVG's own sizes: plotters' are larger by a quarter.
    let font = FontDesc::new(FontFamily::SansSerif, f64::from(size) * 1.24, style);
    let style = TextStyle::from(font).color(colour).pos(Pos::new(side, VPos::Center));
    Ok(root.draw(&Text::new(text, at, style))?)
}
