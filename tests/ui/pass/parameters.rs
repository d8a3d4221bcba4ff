//! None, twelve, sixteen; raw names; payload types of every make.
#![deny(warnings)]

use jobq::prelude::*;
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

#[job]
async fn none() {}

#[job]
#[allow(clippy::too_many_arguments)]
async fn twelve(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8, k: u8, l: u8) {
    let _ = (a, b, c, d, e, f, g, h, i, j, k, l);
}

#[job]
#[allow(clippy::too_many_arguments)]
async fn sixteen(
    a: u8,
    b: u8,
    c: u8,
    d: u8,
    e: u8,
    f: u8,
    g: u8,
    h: u8,
    i: u8,
    j: u8,
    k: u8,
    l: u8,
    m: u8,
    n: u8,
    ctx: &JobContext,
    #[data] last: &String,
) {
    let _ = (a, b, c, d, e, f, g, h, i, j, k, l, m, n, ctx, last);
}

#[job(label = "{type} {fn}")]
async fn r#type(r#type: String, r#fn: u8) {
    let _ = (r#type, r#fn);
}

/// No Debug, no Clone, no Default.
#[derive(Serialize, Deserialize)]
struct Page<T>(Vec<Option<T>>);

#[job]
async fn of_every_make(
    pages: Vec<Option<Page<HashMap<String, Box<[u8]>>>>>,
    sorted: BTreeMap<u64, (String, Option<Vec<f64>>)>,
    text: Cow<'static, str>,
    array: [[u8; 4]; 4],
    result: Result<u8, String>,
    json: serde_json::Value,
    at: chrono::DateTime<chrono::Utc>,
    mut counted: u128,
    _unused: char,
) {
    counted += 1;
    let _ = (pages, sorted, text, array, result, json, at, counted);
}

#[job]
async fn data_of_every_make(
    _: &JobContext,
    #[data] (a, b): &(u8, u8),
    #[data] shared: &std::sync::Arc<dyn Fn() + Send + Sync>,
    #[data] owned: Vec<&'static str>,
    #[serde(default)] odd: serde_json::Value,
) {
    let _ = (a, b, shared, owned, odd);
}

fn main() {
    let _ = (
        none.enqueue(()),
        None {}.enqueue(),
        r#type.enqueue(("a".into(), 1)),
        Type { r#type: "a".into(), r#fn: 1 },
    );
    let _ = twelve.enqueue((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    let _ = sixteen.enqueue((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)).priority(1);
    let json = serde_json::Value::Null;
    let at = chrono::DateTime::default();
    let _ = of_every_make.enqueue((vec![], [].into(), "".into(), [[0; 4]; 4], Ok(1), json, at, 7, 'x'));
    let _ = data_of_every_make.enqueue(serde_json::Value::Null);
}
