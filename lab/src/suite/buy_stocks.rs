//! The SOAP orders sent by the Micro Integrator's performance tests, of roughly a given size.
//!
//! The published requests have 298 bytes of envelope and as many whole orders as fit: requested sizes of 500,
//! 1,000, 10,000 and 100,000 bytes give 499, 981, 9,997 and 99,966 bytes. Source: WSO2 `performance-ei`, the
//! request files `<N>B_buyStocks.xml`.

use std::fmt::Display;

use crate::limits;

const HEAD: &str = r#"<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/">
<soapenv:Header><routing xmlns="http://someuri">xadmin;server1;community#1.0##</routing></soapenv:Header>
<soapenv:Body>
<m:buyStocks xmlns:m="http://services.samples/xsd">
"#;
const TAIL: &str = "</m:buyStocks></soapenv:Body></soapenv:Envelope>";
/// Bytes per order assumed when computing how many fit.
const ORDER_BYTES: usize = 98;
/// Symbol, buyer, price, volume; selected by the number of remaining orders modulo 4.
const ORDERS: [[&str; 4]; 4] = [
    ["IBM", "john", "140.34", "2000"],
    ["MSFT", "doe", "23.56", "8030"],
    ["SUN", "indika", "14.56", "500"],
    ["N", "n", "1.0", "1"],
];

fn order(symbol: &str, buyer: &str, price: &str, volume: impl Display) -> String {
    format!(
        "<order><symbol>{symbol}</symbol><buyerID>{buyer}</buyerID><price>{price}</price>\
         <volume>{volume}</volume></order>\n"
    )
}

/// So many of these orders without an envelope, all for IBM, with volumes that count down. Source:
/// `<n>Elements_buyStocks.xml`.
pub(crate) fn make_elements(count: usize) -> String {
    let orders = (1..=count).rev().map(|volume| order("IBM", "john", "140.34", volume));
    let orders: String = orders.collect();
    format!("<m:buyStocks xmlns:m=\"http://services.samples/xsd\">\n{orders}</m:buyStocks>")
}

/// JSON of exactly `bytes` bytes: `{"payload":{"symbol":["json", ...]}}` on lines of its own. Source:
/// `<N>B_JSONPayload.json`; white space before the end makes up the size.
///
/// # Errors
/// As [`make`].
pub(crate) fn make_json(bytes: usize) -> Result<String, String> {
    const OPEN: &str = "{\n  \"payload\": {\n    \"symbol\": [\n      \"json\"";
    const NEXT: &str = ",\n      \"json\"";
    const CLOSE: &str = "\n    ]\n  }\n}\n";
    let frame = OPEN.len() + CLOSE.len();
    let Some(room) = bytes.checked_sub(frame).filter(|_| bytes <= limits::PAYLOAD_BYTES_MAX) else {
        let most = limits::PAYLOAD_BYTES_MAX;
        return Err(format!("the JSON needs {frame} to {most} bytes, not {bytes}"));
    };
    let (more, spaces) = (NEXT.repeat(room / NEXT.len()), "\n".repeat(room % NEXT.len()));
    Ok(format!("{OPEN}{more}{CLOSE}{spaces}"))
}

/// # Errors
/// `bytes` is too small for one order, or above [`limits::PAYLOAD_BYTES_MAX`].
pub(crate) fn make(bytes: usize) -> Result<String, String> {
    let frame = HEAD.len() + TAIL.len();
    let count = bytes.saturating_sub(frame) / ORDER_BYTES;
    if count == 0 || bytes > limits::PAYLOAD_BYTES_MAX {
        let (least, most) = (frame + ORDER_BYTES, limits::PAYLOAD_BYTES_MAX);
        return Err(format!("SOAP orders need {least} to {most} bytes, not {bytes}"));
    }
    let mut text = HEAD.to_owned();
    for left in (1..=count).rev() {
        let [symbol, buyer, price, volume] = ORDERS.get(left % 4).unwrap_or(&ORDERS[0]);
        text.push_str(&order(symbol, buyer, price, volume));
    }
    Ok(text + TAIL)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::{make, make_elements, make_json};

    #[test]
    fn sizes_match_the_published_requests() {
        for (bytes, expect) in [(500, 499), (1_000, 981), (10_000, 9_997), (100_000, 99_966)] {
            assert_eq!(make(bytes).unwrap().len(), expect, "{bytes}");
        }
        assert!(make(300).is_err() && make(usize::MAX).is_err());
        let text = make(500).unwrap();
        let symbols: Vec<&str> =
            text.split("<symbol>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
        assert_eq!(symbols, ["SUN", "MSFT"]);
    }

    #[test]
    fn other_shapes_have_their_sizes() {
        assert_eq!(make_elements(20).matches("<order>").count(), 20);
        assert!(make_elements(2).ends_with(
            "<volume>2</volume></order>\n<order><symbol>IBM</symbol><buyerID>john</buyerID>\
             <price>140.34</price><volume>1</volume></order>\n</m:buyStocks>"
        ));
        for bytes in [100, 101, 1_000] {
            let text = make_json(bytes).unwrap();
            assert_eq!(text.len(), bytes);
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(json["payload"]["symbol"].as_array().unwrap().iter().all(|one| one == "json"));
        }
        assert!(make_json(40).is_err());
    }
}
