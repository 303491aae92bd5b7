//! Parsing allocates per document, not per node.

use penstock_xml::Document;

/// Allocations of any document: names, open elements, arrays.
const ANY_DOCUMENT: u64 = 40;
/// Arrays that grow with a document: attributes, tags, declarations, instructions, and composed text with
/// its places.
const ARRAYS: u64 = 7;
/// How often each of them doubles from the small to the large document.
const DOUBLINGS: u64 = 10;

#[test]
fn more_nodes_cost_no_more_allocations_than_the_growth_of_arrays() {
    let order = "<order id='7'><symbol>IBM</symbol> a &amp; b <!-- c --><?d e?></order>\n";
    check(order, 10, 1_000);
    check("<a xmlns='urn:a'><b/></a>", 10, 10_000);
    check("text &lt; ", 10, 10_000);
}

/// Parses a document of `few` pieces and one of `many`.
#[track_caller]
fn check(piece: &str, few: usize, many: usize) {
    let (few, many) = (allocations(piece, few), allocations(piece, many));
    assert!(few <= ANY_DOCUMENT, "{few} allocations for a small document");
    let growth = ARRAYS * DOUBLINGS;
    assert!(many <= few + growth, "{many} allocations for a large document, {few} for a small one");
}

fn allocations(piece: &str, times: usize) -> u64 {
    let text = format!("<orders>{}</orders>", piece.repeat(times));
    let counted = allocation_counter::measure(|| {
        let document = Document::parse(text.as_bytes());
        assert!(document.is_ok());
    });
    counted.count_total
}
