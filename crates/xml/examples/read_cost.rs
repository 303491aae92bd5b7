//! Measures parsing and writing of a buyStocks document: `cargo run --profile quick --example read_cost`
//! prints, for 1, 10 and 100 KB, the microseconds of a parse and of a serialisation, and the heap of the tree
//! as a multiple of the document.

use std::time::Instant;

use penstock_xml::{Document, WriterOptions};

const ORDERS: [(&str, &str, &str, &str); 4] = [
    ("IBM", "john", "140.34", "2000"),
    ("MSFT", "doe", "23.56", "8030"),
    ("SUN", "indika", "14.56", "500"),
    ("N", "n", "1.0", "1"),
];

fn buy_stocks(size: usize) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\">\n\
         <soapenv:Header>\n<routing xmlns=\"http://someuri\">xadmin;server1;community#1.0##</routing>\n\
         </soapenv:Header>\n<soapenv:Body>\n<m:buyStocks xmlns:m=\"http://services.samples/xsd\">\n",
    );
    let count = size.saturating_sub(298) / 98;
    for left in (1..=count).rev() {
        let (symbol, buyer, price, volume) = ORDERS[(4 - left % 4) % 4];
        out.push_str(&format!(
            "<order><symbol>{symbol}</symbol><buyerID>{buyer}</buyerID><price>{price}</price>\
             <volume>{volume}</volume></order>\n"
        ));
    }
    out.push_str("</m:buyStocks>\n</soapenv:Body>\n</soapenv:Envelope>\n");
    out
}

fn median_us(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..400)
        .map(|_| {
            let start = Instant::now();
            (0..10).for_each(|_| work());
            start.elapsed().as_secs_f64() * 1e5
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(folder) = std::env::args().nth(1) {
        for size in [1_000, 10_000, 100_000] {
            std::fs::write(format!("{folder}/{size}.xml"), buy_stocks(size))?;
        }
    }
    for size in [1_000, 10_000, 100_000] {
        let text = buy_stocks(size);
        let document = Document::parse(text.as_bytes())?;
        let parse = median_us(|| drop(Document::parse(std::hint::black_box(text.as_bytes()))));
        let write = median_us(|| drop(document.write(WriterOptions::default())));
        let ratio = document.heap_bytes() as f64 / text.len() as f64;
        println!(
            "{} bytes: parse {parse:.2} us, write {write:.2} us, heap {ratio:.2}x",
            text.len()
        );
    }
    Ok(())
}
