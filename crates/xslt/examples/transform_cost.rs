//! What the published sheet costs on a buyStocks document:
//! `cargo run --profile quick -p penstock-xslt --example transform_cost` prints, for 1, 10 and 100 KB,
//! microseconds for the transformation alone, and for parsing, transforming and serialising.

use std::hint::black_box;
use std::time::Instant;

use xml::Document;
use xslt::{Params, Refuse, Stylesheet};

const SHEET: &[u8] = include_bytes!("../tests/data/reverse.xslt");
const ORDERS: &str = include_str!("../tests/data/buyStocks.xml");

/// The small document, with its two orders repeated up to about `size` bytes.
fn buy_stocks(size: usize) -> String {
    let (head, rest) = ORDERS.split_once("<order>").unwrap_or((ORDERS, ""));
    let (orders, tail) = rest.split_once("</m:buyStocks>").unwrap_or((rest, ""));
    let times = size.saturating_sub(head.len() + tail.len()) / (orders.len() + 7);
    let orders = format!("<order>{orders}").repeat(times);
    format!("{head}{orders}</m:buyStocks>{tail}")
}

fn median_us(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..300)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sheet = Stylesheet::compile(SHEET, &Refuse)?;
    let params = Params::new();
    for size in [1_000, 10_000, 100_000] {
        let text = buy_stocks(size);
        let document = Document::parse(text.as_bytes())?;
        sheet.transform(&document, &params, &mut Vec::new())?;
        let transform = median_us(|| {
            let mut out = Vec::new();
            let done = sheet.transform(black_box(&document), &params, &mut out);
            black_box((out, done.is_ok()));
        });
        let whole = median_us(|| {
            let mut out = Vec::new();
            if let Ok(document) = Document::parse(black_box(text.as_bytes())) {
                let done = sheet.transform(&document, &params, &mut out);
                black_box((out, done.is_ok()));
            }
        });
        let bytes = text.len();
        println!(
            "{bytes} bytes: transform and write {transform:.1} us, with parsing {whole:.1} us"
        );
    }
    Ok(())
}
