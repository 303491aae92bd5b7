//! `measure FILE [EXPRESSIONS]`: nanoseconds per evaluation of each expression of a list on a file, the
//! least of several runs.

use std::time::Instant;

use xpath::{Context, Expression, Nothing, StaticContext};

struct Prefixes;

impl StaticContext for Prefixes {
    fn namespace(&self, prefix: &str) -> Option<String> {
        let uri = match prefix {
            "soapenv" => "http://schemas.xmlsoap.org/soap/envelope/",
            "m" => "http://services.samples/xsd",
            "t" => "http://someuri",
            _ => return None,
        };
        Some(uri.to_owned())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: measure FILE [EXPRESSIONS]")?;
    let list = arguments.next().unwrap_or("crates/xpath/benches-data/twenty.txt".to_owned());
    let bytes = std::fs::read(file)?;
    let document = xml::Document::parse(&bytes)?;
    let context = Context::new(document.root());
    for line in std::fs::read_to_string(list)?.lines().filter(|line| !line.starts_with('#')) {
        let expression = Expression::compile(line, &Prefixes)?;
        let mut least = f64::INFINITY;
        for _ in 0..9 {
            let (start, mut rounds) = (Instant::now(), 0u32);
            while rounds < 20 || start.elapsed().as_micros() < 4_000 {
                std::hint::black_box(expression.evaluate(context, &mut Nothing)?);
                rounds += 1;
            }
            least = least.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds));
        }
        println!("{least:.0}\t{line}");
    }
    Ok(())
}
