pub mod stream;
pub mod tls;
