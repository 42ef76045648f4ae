//! The arrays within an `.npz` file: NumPy's `.npy` header and the numbers behind it (specification §3.1).
//!
//! The header is the literal of a small Python dictionary:
//! `{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }`. It is parsed here because the
//! crate for it multiplies shapes without looking and nests without limit: a lying header would stop us.

use std::io::{self, Read};

use super::raw::read_exactly;

/// The header of an array: type, order and shape of its elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub element: Element,
    pub fortran: bool,
    pub shape: Vec<usize>,
}

/// The type of the elements of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Element {
    pub kind: ElementKind,
    pub bytes: usize,
    big_endian: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ElementKind {
    Signed,
    Unsigned,
    Float,
    /// Texts of four bytes a character, filled up with zeros.
    Unicode,
    /// Texts of one byte a character, filled up with zeros.
    Bytes,
    /// Elements of any other kind, which cannot be pixels or labels.
    Other,
}

impl Header {
    /// Reads up to the first element. The error of kind `InvalidData` says what is wrong.
    pub fn read(reader: &mut dyn Read) -> io::Result<Self> {
        let start = read_exactly(reader, 8)?;
        let length_bytes = match start[..] {
            [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _] => 2,
            [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _] => 4,
            _ => return Err(invalid("not a NumPy array")),
        };
        let length = read_exactly(reader, length_bytes)?;
        let length = length.iter().rev().fold(0, |length, &byte| length << 8 | usize::from(byte));
        if length > LONGEST_HEADER {
            return Err(invalid("its header is too long"));
        }
        let text = read_exactly(reader, length)?;
        let text = std::str::from_utf8(&text).map_err(|_| invalid("its header is not text"))?;
        Self::parse(text)
            .ok_or_else(|| invalid("its header cannot be read (arrays of records are not supported)"))
    }

    /// Number of elements, if it is a number.
    pub fn len(&self) -> Option<usize> {
        self.shape.iter().try_fold(1_usize, |product, &dimension| product.checked_mul(dimension))
    }

    fn parse(text: &str) -> Option<Self> {
        let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
        let element = value(inner, "descr")?;
        let quote = element.chars().next().filter(|&c| c == '\'' || c == '"')?;
        let (element, _) = element.get(1..)?.split_once(quote)?;
        let fortran = match value(inner, "fortran_order")? {
            order if order.starts_with("True") => true,
            order if order.starts_with("False") => false,
            _ => return None,
        };
        let (shape, _) = value(inner, "shape")?.strip_prefix('(')?.split_once(')')?;
        let shape = shape
            .split(',')
            .map(str::trim)
            .filter(|dimension| !dimension.is_empty())
            // Python 2 wrote long integers with an L.
            .map(|dimension| dimension.trim_end_matches('L').parse().ok())
            .collect::<Option<Vec<usize>>>()?;
        Some(Self { element: Element::parse(element)?, fortran, shape })
    }
}

const LONGEST_HEADER: usize = 4096;

/// The text that follows `'key':` in the dictionary.
fn value<'a>(dictionary: &'a str, key: &str) -> Option<&'a str> {
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let (_, rest) = quoted.iter().find_map(|key| dictionary.split_once(key.as_str()))?;
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

fn invalid(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

impl Element {
    fn parse(text: &str) -> Option<Self> {
        let big_endian = text.starts_with('>');
        let text = text.trim_start_matches(['<', '>', '|', '=']);
        let kind = text.chars().next()?;
        let size: usize = text.get(kind.len_utf8()..)?.parse().unwrap_or(0);
        let (kind, bytes) = match (kind, size) {
            ('i', 1 | 2 | 4 | 8) => (ElementKind::Signed, size),
            ('u', 1 | 2 | 4 | 8) => (ElementKind::Unsigned, size),
            ('f', 4 | 8) => (ElementKind::Float, size),
            ('U', 1..=1024) => (ElementKind::Unicode, size * 4),
            ('S' | 'a', 1..=4096) => (ElementKind::Bytes, size),
            _ => (ElementKind::Other, 1),
        };
        Some(Self { kind, bytes, big_endian })
    }

    /// Reads an element of an integer type.
    pub fn integer(&self, bytes: &[u8]) -> i128 {
        let bits = self.bits(bytes);
        match (self.kind, self.bytes) {
            (ElementKind::Signed, 1) => i128::from(bits as i8),
            (ElementKind::Signed, 2) => i128::from(bits as i16),
            (ElementKind::Signed, 4) => i128::from(bits as i32),
            (ElementKind::Signed, _) => i128::from(bits as i64),
            _ => i128::from(bits),
        }
    }

    /// Reads an element of a float type.
    pub fn float(&self, bytes: &[u8]) -> f64 {
        let bits = self.bits(bytes);
        if self.bytes == 4 { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits) }
    }

    /// Reads an element of a text type, unicode or bytes.
    pub fn text(&self, bytes: &[u8]) -> String {
        let text: String = match self.kind {
            ElementKind::Unicode => bytes
                .chunks_exact(4)
                .map(|unit| char::from_u32(self.bits(unit) as u32).unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect(),
            _ => String::from_utf8_lossy(bytes).into_owned(),
        };
        text.trim_end_matches('\0').to_owned()
    }

    /// The pixel that a number stands for: 0 to 255 as it is, or 0.0 to 1.0 times 255.
    pub fn pixel(&self, bytes: &[u8]) -> Result<u8, String> {
        if self.kind == ElementKind::Float {
            let value = self.float(bytes);
            let inside = (0.0..=1.0).contains(&value);
            return if inside { Ok((value * 255.0).round() as u8) } else { Err(format!("{value}")) };
        }
        let value = self.integer(bytes);
        u8::try_from(value).map_err(|_| value.to_string())
    }

    fn bits(&self, bytes: &[u8]) -> u64 {
        // The first two cases are only there for speed: an array may hold a billion of these.
        match (bytes, self.big_endian) {
            (&[a, b, c, d], false) => u64::from(u32::from_le_bytes([a, b, c, d])),
            (&[a, b, c, d, e, f, g, h], false) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            (bytes, true) => bytes.iter().fold(0, |bits, &byte| bits << 8 | u64::from(byte)),
            (bytes, false) => bytes.iter().rfold(0, |bits, &byte| bits << 8 | u64::from(byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(text: &str) -> Element {
        Element::parse(text).unwrap()
    }

    #[test]
    fn headers_by_hand() {
        let parse = |text: &str| Header::parse(text);
        let header =
            parse("{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }   \n").unwrap();
        assert_eq!(header.element, Element { kind: ElementKind::Float, bytes: 4, big_endian: false });
        assert_eq!((header.fortran, &header.shape[..]), (false, &[60_000, 28, 28][..]));
        assert_eq!(header.len(), Some(47_040_000));
        let header = parse("{\"shape\":(7L,),\"fortran_order\":True,\"descr\":\">i2\"}").unwrap();
        assert_eq!((header.fortran, header.shape), (true, vec![7]));
        assert_eq!(parse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}"), None);
        assert_eq!(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), None);
        assert_eq!(parse("{'descr': '<f4', 'shape': (1,)}"), None);
    }

    #[test]
    fn a_shape_beyond_all_numbers_has_no_length() {
        let text = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({m}, {m})}}", m = usize::MAX);
        assert_eq!(Header::parse(&text).unwrap().len(), None);
    }

    #[test]
    fn numbers_by_hand() {
        assert_eq!(element("<i2").integer(&[0xfe, 0xff]), -2);
        assert_eq!(element(">i2").integer(&[0x01, 0x02]), 258);
        assert_eq!(element("<u8").integer(&[0xff; 8]), i128::from(u64::MAX));
        assert_eq!(element("<f8").float(&1.5_f64.to_le_bytes()), 1.5);
        assert_eq!(element(">f4").float(&(-0.25_f32).to_be_bytes()), -0.25);
        assert_eq!(element("<U3").text(&[b'a', 0, 0, 0, 0xe4, 0, 0, 0, 0, 0, 0, 0]), "aä");
        assert_eq!(element("|S4").text(b"dog\0"), "dog");
    }

    #[test]
    fn pixels_by_hand() {
        let float = |value: f32| element("<f4").pixel(&value.to_le_bytes());
        assert_eq!((float(0.0), float(0.5), float(1.0)), (Ok(0), Ok(128), Ok(255)));
        assert_eq!(float(f32::NAN), Err("NaN".to_owned()));
        assert_eq!(float(1.5), Err("1.5".to_owned()));
        assert_eq!(element("<i4").pixel(&255_i32.to_le_bytes()), Ok(255));
        assert_eq!(element("<i4").pixel(&256_i32.to_le_bytes()), Err("256".to_owned()));
        assert_eq!(element("|i1").pixel(&[0xff]), Err("-1".to_owned()));
    }
}
