//! The number of allocations of a run does not depend on the number of nodes.

use xslt::{NoResolver, Params, Stylesheet};

const REVERSE: &str = include_str!("data/reverse.xslt");
/// Maximum number of allocations of the published stylesheet with a small document.
const RUN_MAX: u64 = 30;
/// The output and the node list of a loop grow with the document, by doubling.
const ARRAYS: u64 = 2;
const DOUBLINGS: u64 = 10;

#[test]
fn more_orders_take_no_more_allocations_than_the_growth_of_two_arrays() {
    let (few, many) = (allocations(10), allocations(1_000));
    assert!(few <= RUN_MAX, "{few} allocations over a small document");
    let growth = ARRAYS * DOUBLINGS;
    assert!(many <= few + growth, "{many} allocations over a large document, {few} over a small");
}

/// The number of allocations of a run of the published stylesheet.
fn allocations(orders: usize) -> u64 {
    let sheet = Stylesheet::compile(REVERSE.as_bytes(), &NoResolver).unwrap();
    let order = "<order><symbol>IBM</symbol><buyerID>john</buyerID><price>1</price><volume>2</volume></order>\n";
    let text = format!(
        "<m:buyStocks xmlns:m='http://services.samples/xsd'>{}</m:buyStocks>",
        order.repeat(orders)
    );
    let source = xml::Document::parse(text.as_bytes()).unwrap();
    let mut out = Vec::new();
    let counted = allocation_counter::measure(|| {
        sheet.transform(&source, &Params::new(), &mut out).unwrap();
    });
    assert_eq!(out.windows(7).filter(|bytes| bytes == b"<redro>").count(), orders);
    counted.count_total
}
