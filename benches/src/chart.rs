//! The chart: a panel of bars for each of W1 (64 tasks) to W4, narrow enough for a phone, on a ground of its own.

use crate::{
    plan::Sizes,
    report::Report,
    results::{Case, grouped, whole},
    subjects::{Role, Subject},
};
use anyhow::Result;
use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

const WIDTH: i32 = 500;
const MARGIN: i32 = 14;
/// Where the bars begin, and how long the longest is.
const BARS: i32 = 202;
const LONGEST: i32 = 212;
const ROW: i32 = 22;
/// Above the panels, above the bars of a panel, and below all.
const TITLE: i32 = 112;
const HEAD: i32 = 40;
const FOOT: i32 = 56;

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
            panel(&root, top, &in_words(*case, report.sizes), bars)?;
            top += HEAD + ROW * bars.len() as i32;
        }
        let foot = [
            "DELETE: effectum as it ships, a rollback journal and NORMAL; else WAL.",
            "honker runs handlers in its claiming thread; the limit has no promises.",
        ];
        for (place, line) in foot.into_iter().enumerate() {
            write(&root, line, (MARGIN, top + 22 + 18 * place as i32), 12, &FAINT, HPos::Left, false)?;
        }
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
    write(root, "Jobs per second on one SQLite file", (MARGIN, 26), 20, &INK, HPos::Left, true)?;
    let how = match report.quick {
        true => format!("{} cores, a quick look only; longer is better", report.machine.cores),
        false => {
            format!("{} cores, medians of {} rounds; longer is better", report.machine.cores, report.rounds)
        }
    };
    write(root, &how, (MARGIN, 49), 14, &FAINT, HPos::Left, false)?;
    let full = [
        (Role::Ours, 0, "jobq"),
        (Role::Peer { across: false }, 74, "peers"),
        (Role::Limit, 154, "limit: bare SQLite, no queue"),
    ];
    for (role, left, text) in full {
        swatch(root, (MARGIN + left, 73), colour(role, true))?;
        write(root, text, (MARGIN + left + 18, 73), 14, &INK, HPos::Left, false)?;
    }
    for (place, role) in [Role::Ours, Role::Other, Role::Limit].into_iter().enumerate() {
        swatch(root, (MARGIN + 18 * place as i32, 96), colour(role, false))?;
    }
    let pale = "paler: a power cut can take the latest jobs";
    write(root, pale, (MARGIN + 54, 96), 14, &INK, HPos::Left, false)
}

fn swatch(root: &Area, (left, middle): (i32, i32), colour: RGBColor) -> Result<()> {
    let corners = [(left, middle - 6), (left + 12, middle + 6)];
    Ok(root.draw(&Rectangle::new(corners, colour.filled()))?)
}

fn panel(root: &Area, top: i32, title: &str, bars: &[Bar]) -> Result<()> {
    write(root, title, (MARGIN, top + 24), 15, &INK, HPos::Left, true)?;
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

fn in_words(case: Case, sizes: &Sizes) -> String {
    match case {
        Case::Tasks => "W1  Enqueue one by one, 64 tasks at once".into(),
        Case::Bulk => "W2  Enqueue 1,000 at a time".into(),
        Case::Drain => format!("W3  Run a backlog of {}", whole(sizes.backlog)),
        _ => "W4  Enqueue and run at once, 64 tasks and a worker".into(),
    }
}

/// The name and `synchronous`; the journal instead where it is not the log.
fn name(subject: &Subject) -> String {
    let durability = subject.durability.strip_prefix("WAL, ");
    let durability = durability.or_else(|| subject.durability.split(", ").next());
    format!("{} {}", subject.name, durability.unwrap_or_default())
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
