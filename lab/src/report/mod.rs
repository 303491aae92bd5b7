//! Telling: tables, charts and one page from a folder of results.
//!
//! Reads `result.json` files, and the histogram logs beside them; answers texts and pictures. Every row
//! goes through the gates again, so that an old folder is judged by today's gates, and a row with a doubt
//! is told with it.
//!
//! Architecture invariant: the page asks nothing of the network, and no figure is told without its doubts.

pub mod folder;
pub mod summary;
mod view;

pub use view::View;
