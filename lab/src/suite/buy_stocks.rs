//! The SOAP orders sent by the Micro Integrator's performance tests, of roughly a given size.
//!
//! The published requests have 298 bytes of envelope and as many whole orders as fit: requested sizes of 500,
//! 1,000, 10,000 and 100,000 bytes give 499, 981, 9,997 and 99,966 bytes. Source: WSO2 `performance-ei`, the
//! request files `<N>B_buyStocks.xml`.

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
        text.push_str(&format!(
            "<order><symbol>{symbol}</symbol><buyerID>{buyer}</buyerID><price>{price}</price>\
             <volume>{volume}</volume></order>\n"
        ));
    }
    Ok(text + TAIL)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::make;

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
}
