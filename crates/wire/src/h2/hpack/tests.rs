use base::limits::H2_TABLE_BYTES_MAX;
use proptest::prelude::*;

use super::encode::{field, status};
use super::{CompressionError, Decoder, huffman};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<String, CompressionError> {
    let mut lines = String::new();
    decoder.decode(block, |name, value| {
        lines += &format!("{}: {}\n", name.escape_ascii(), value.escape_ascii());
    })?;
    Ok(lines)
}

/// `blocks`: in hexadecimal, the fields that they decode to, and the size of the dynamic table afterwards.
#[track_caller]
fn check(blocks: &[(&str, &str, usize)]) {
    let mut decoder = Decoder::new();
    for (block, expect, size) in blocks {
        assert_eq!(decode(&mut decoder, &hex(block)).as_deref(), Ok(*expect), "{block}");
        assert_eq!(decoder.table_bytes().0, *size, "{block}");
    }
}

/// RFC 7541 appendix C.2.
#[test]
fn each_representation_of_a_field_is_decoded() {
    check(&[(
        "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
        "custom-key: custom-header\n",
        55,
    )]);
    check(&[("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n", 0)]);
    check(&[("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n", 0)]);
    check(&[("82", ":method: GET\n", 0)]);
}

const FIRST: &str = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
const SECOND: &str =
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n";
const THIRD: &str = ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n\
                     custom-key: custom-value\n";

/// RFC 7541 appendices C.3 and C.4.
#[test]
fn requests_refer_to_the_fields_of_earlier_ones() {
    check(&[
        ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", FIRST, 57),
        ("8286 84be 5808 6e6f 2d63 6163 6865", SECOND, 110),
        ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", THIRD, 164),
    ]);
    check(&[
        ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST, 57),
        ("8286 84be 5886 a8eb 1064 9cbf", SECOND, 110),
        ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", THIRD, 164),
    ]);
}

#[test]
fn what_is_not_hpack_is_rejected() {
    for (block, why) in [
        ("80", "index 0"),
        ("be", "an empty dynamic table"),
        ("ff80 8080 8001", "an integer of too many bytes"),
        ("7f", "an integer without its end"),
        ("40", "no name"),
        ("4003 6162", "a short name"),
        ("4001 61", "no value"),
        ("4001 6105 62", "a short value"),
        ("3fe2 1f", "a table above the limit"),
        ("8220", "a new size after a field"),
        ("0081 ff01 61", "padding of eight bits"),
        ("0081 0001 61", "padding that is not all ones"),
        ("0084 ffff ffff 0161", "the end of the string within it"),
        ("0085 ffff ffff ff01 61", "long padding"),
    ] {
        assert!(decode(&mut Decoder::new(), &hex(block)).is_err(), "{why}");
    }
    assert_eq!(decode(&mut Decoder::new(), &hex("203f e11f 82")).as_deref(), Ok(":method: GET\n"));
}

#[test]
fn the_dynamic_table_keeps_to_its_limit_in_size_and_memory() {
    let mut decoder = Decoder::new();
    for round in 0..1_000_usize {
        let mut block = vec![0x40, 1, b'n', 0x7f, 0x01];
        block.extend_from_slice(&[b'v'; 0x80]);
        decode(&mut decoder, &block).unwrap();
        assert!(decoder.table_bytes().0 <= H2_TABLE_BYTES_MAX, "{round}");
        assert!(decoder.table_bytes().1 <= 2 * H2_TABLE_BYTES_MAX, "{round}");
    }
    // 25 entries of 161 bytes fit.
    assert!(decode(&mut decoder, &[0x80 | (62 + 24)]).is_ok());
    assert!(decode(&mut decoder, &[0x80 | (62 + 25)]).is_err());
    // An entry above the maximum empties the table.
    let large = [&[0x40, 1, b'n', 0x7f, 0x81, 0x20][..], &[b'v'; 0x7f + 1 + (0x20 << 7)]].concat();
    decode(&mut decoder, &large).unwrap();
    assert_eq!((decoder.table_bytes().0, decoder.table_bytes().1), (0, 0));
}

#[test]
fn every_symbol_has_a_code_of_its_own() {
    let codes = huffman::codes();
    assert_eq!(codes.len(), 257);
    assert_eq!((codes[usize::from(b'a')], codes[usize::from(b'X')]), ((0x3, 5), (0xfc, 8)));
    assert_eq!(
        (codes[0], codes[usize::from(b'\n')], codes[256]),
        ((0x1ff8, 13), (0x3fff_fffc, 30), (0x3fff_ffff, 30))
    );
    for byte in 0..=u8::MAX {
        let (mut code, mut out) = (Vec::new(), Vec::new());
        huffman::encode(&mut code, &[byte, b'a', byte]);
        huffman::decode(&mut out, &code).unwrap();
        assert_eq!(out, [byte, b'a', byte]);
    }
}

#[test]
fn a_repeated_token_is_decoded_as_before() {
    let mut decoder = Decoder::new();
    let tokens = ["a".repeat(400), format!("{}b", "a".repeat(399)), "x".repeat(9_000)];
    for token in [0, 0, 1, 0, 2, 2, 1, 1].map(|index: usize| &tokens[index]) {
        let mut code = Vec::new();
        huffman::encode(&mut code, token.as_bytes());
        // A literal that is never indexed, with the name `authorization`.
        let mut block = vec![0x1f, 8, 0xff];
        let mut rest = code.len() - 0x7f;
        while rest >= 0x80 {
            block.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        block.push(rest.to_le_bytes()[0]);
        block.extend_from_slice(&code);
        let expect = format!("authorization: {token}\n");
        assert_eq!(decode(&mut decoder, &block), Ok(expect));
        // An invalid code in between is not remembered.
        let broken = [&[0x1f, 8, 0xff, 1][..], &[0xff; 0x80]].concat();
        assert!(decode(&mut decoder, &broken).is_err());
    }
}

#[test]
fn a_repeated_field_is_decoded_as_before() {
    let (mut remembering, mut plain) = (Decoder::new().remembering(), Decoder::new());
    let values = ["nginx", "nginx", "Nginx", "", "nginx", "a", "a"];
    // `server` and `date` with incremental indexing, a name of its own, and the newest entry's name.
    for (turn, value) in values.iter().enumerate() {
        let mut code = Vec::new();
        huffman::encode(&mut code, value.as_bytes());
        let text = |out: &mut Vec<u8>| {
            out.push(0x80 | u8::try_from(code.len()).unwrap());
            out.extend_from_slice(&code);
        };
        let mut block = Vec::new();
        for name in [&[0x76][..], &[0x61], &[0x40, 1, b'n'], &[0x7e]] {
            block.extend_from_slice(name);
            text(&mut block);
        }
        let expected = format!("server: {value}\ndate: {value}\nn: {value}\nn: {value}\n");
        assert_eq!(decode(&mut remembering, &block).as_deref(), Ok(&*expected), "{turn}");
        assert_eq!(decode(&mut plain, &block).as_deref(), Ok(&*expected), "{turn}");
        assert_eq!(remembering.table_bytes(), plain.table_bytes());
    }
    // An invalid code is not remembered: padding of more than 7 bits.
    for decoder in [&mut remembering, &mut plain] {
        assert!(decode(decoder, &[0x76, 0x82, 0xff, 0xff]).is_err());
        assert!(decode(decoder, &[0x76, 0x82, 0xff, 0xff]).is_err());
        assert_eq!(decode(decoder, &[0x76, 0x80]).as_deref(), Ok("server: \n"));
    }
}

#[test]
fn a_response_uses_the_static_table() {
    let mut block = Vec::new();
    status(&mut block, 200);
    status(&mut block, 418);
    field(&mut block, b"Content-Type", b"text/plain");
    field(&mut block, b"X-Own", b"Kept");
    field(&mut block, b"access-control-allow-origin", b"");
    assert_eq!(block[..3], [0x88, 0x08, 3]);
    assert_eq!(
        decode(&mut Decoder::new(), &block).as_deref(),
        Ok(":status: 200\n:status: 418\ncontent-type: text/plain\nx-own: Kept\n\
            access-control-allow-origin: \n")
    );
}

proptest! {
    #[test]
    fn huffman_decoding_reverses_encoding(text: Vec<u8>) {
        let (mut code, mut out) = (Vec::new(), Vec::new());
        huffman::encode(&mut code, &text);
        huffman::decode(&mut out, &code).unwrap();
        prop_assert_eq!(out, text);
    }

    #[test]
    fn any_field_is_decoded_as_it_was_encoded(
        fields in prop::collection::vec(
            ("[a-z-]{1,40}", prop::collection::vec(any::<u8>(), 0..300)),
            0..20,
        )
    ) {
        let mut block = Vec::new();
        for (name, value) in &fields {
            field(&mut block, name.as_bytes(), value);
        }
        let mut got = Vec::new();
        let mut push = |name: &[u8], value: &[u8]| got.push((name.to_vec(), value.to_vec()));
        Decoder::new().decode(&block, &mut push).unwrap();
        let expect = fields.into_iter().map(|(name, value)| (name.into_bytes(), value));
        let expect: Vec<_> = expect.collect();
        prop_assert_eq!(got, expect);
    }

    #[test]
    fn remembered_values_change_nothing(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..40),
    ) {
        let (mut remembering, mut plain) = (Decoder::new().remembering(), Decoder::new());
        for block in blocks.iter().chain(&blocks) {
            prop_assert_eq!(decode(&mut remembering, block), decode(&mut plain, block));
        }
    }

    #[test]
    fn the_table_stays_within_its_limit_whatever_the_blocks(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        crate::h2::properties::hpack(&bytes);
    }
}
