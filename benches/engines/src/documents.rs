//! The documents of the published tests: SOAP envelopes of about 1, 10 and 100 KB, with one order per line (four kinds
//! in turn), and the JSON payload.

use std::fmt::Write as _;
use std::path::Path;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const ENVELOPE_BYTES: usize = 298;
const ORDER_BYTES: usize = 98;

/// By the number of orders that are left, modulo 4.
const ORDERS: [[&str; 4]; 4] = [
    ["IBM", "john", "140.34", "2000"],
    ["MSFT", "doe", "23.56", "8030"],
    ["SUN", "indika", "14.56", "500"],
    ["N", "n", "1.0", "1"],
];

/// Writes `SIZE.xml` for each size.
pub(crate) fn write(folder: &Path) -> std::io::Result<()> {
    SIZES
        .iter()
        .try_for_each(|&size| std::fs::write(folder.join(format!("{size}.xml")), buy_stocks(size)))
}

pub(crate) fn buy_stocks(size: usize) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\">\n\
         <soapenv:Header>\n<routing xmlns=\"http://someuri\">xadmin;server1;community#1.0##</routing>\n\
         </soapenv:Header>\n<soapenv:Body>\n<m:buyStocks xmlns:m=\"http://services.samples/xsd\">\n",
    );
    for left in (1..=size.saturating_sub(ENVELOPE_BYTES) / ORDER_BYTES).rev() {
        for [symbol, buyer, price, volume] in ORDERS.iter().skip(left % 4).take(1) {
            _ = writeln!(
                out,
                "<order><symbol>{symbol}</symbol><buyerID>{buyer}</buyerID><price>{price}</price>\
                 <volume>{volume}</volume></order>"
            );
        }
    }
    out.push_str("</m:buyStocks>\n</soapenv:Body>\n</soapenv:Envelope>\n");
    out
}

/// The array payload: exactly `size` bytes, strings of ten characters, the last one longer or shorter.
pub(crate) fn array_payload(size: usize) -> Vec<u8> {
    let alphabet = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut letters = alphabet.iter().cycle();
    let mut body = format!("{{\"size\":\"{size}B\",\"payload\":[").into_bytes();
    while body.len() + 15 < size {
        body.push(b'"');
        body.extend(letters.by_ref().take(10));
        body.extend_from_slice(b"\",");
    }
    let rest = size.saturating_sub(body.len() + 4);
    body.push(b'"');
    body.extend(letters.take(rest));
    body.extend_from_slice(b"\"]}");
    body
}

/// An order of about 1 KiB with its customer and twelve items.
pub(crate) fn order() -> String {
    let items: Vec<String> = (0..12)
        .map(|n| format!(r#"{{"sku":"A-{n:03}","name":"thing {n}","price":{n}.50,"count":{n}}}"#))
        .collect();
    format!(
        r#"{{"order":{{"id":"o-1","customer":{{"name":"Ann Example","address":{{"street":"Main","city":"Colombo","zip":"00100"}}}},"total":151.25}},"items":[{}],"notes":"{}"}}"#,
        items.join(","),
        "x".repeat(140)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_have_about_the_published_sizes() {
        for (size, published) in SIZES.iter().zip([981, 9_997, 99_966]) {
            let made = buy_stocks(*size).len();
            assert!(made.abs_diff(published) * 20 < published, "{made} bytes, not {published}");
        }
        assert_eq!(array_payload(1_024).len(), 1_024);
        assert!((900..1_200).contains(&order().len()), "{}", order().len());
    }
}
