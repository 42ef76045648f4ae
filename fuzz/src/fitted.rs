//! Mutated model files and checkpoints, mended where a reader would stop at once.
//!
//! A mutation nearly always breaks the length of the header, the length of the data or the checksum, and then shows
//! only that these three are checked. Mended, it reaches what lies behind them.

use safetensors::SafeTensors;
use serde_json::Value;

/// The key of our document in the header's metadata.
const KEY: &str = "lmc";
/// The most data that a header can make us append.
const MOST_DATA: usize = 1 << 20;

/// The file with the header's length, the length of its data and the checksum recomputed; `None` where it has no header
/// that could be mended.
pub fn fitted(bytes: &[u8]) -> Option<Vec<u8>> {
    let header = bytes.get(8..)?;
    let mut values = serde_json::Deserializer::from_slice(header).into_iter::<Value>();
    let described = values.next()?.ok()?;
    let end = values.byte_offset();
    // Headers are padded with spaces.
    let length = end + header[end..].iter().take_while(|&&byte| byte == b' ').count();
    let (header, data) = header.split_at(length);
    let mut file = (length as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(data);
    file.resize(8 + length + data_length(&described)?, 0);

    let envelope: Value = serde_json::from_str(described["__metadata__"][KEY].as_str()?).ok()?;
    let claimed = envelope["checksum"].as_str().filter(|checksum| checksum.len() == 64)?;
    let actual = checksum(&envelope["document"], &SafeTensors::deserialize(&file).ok()?);
    let at = find(header, claimed.as_bytes())? + 8;
    file[at..at + 64].copy_from_slice(actual.as_bytes());
    Some(file)
}

/// The bytes of data that the tensors of a header claim.
fn data_length(header: &Value) -> Option<usize> {
    let ends = header.as_object()?.values().filter_map(|tensor| tensor["data_offsets"][1].as_u64());
    usize::try_from(ends.max().unwrap_or(0)).ok().filter(|&length| length <= MOST_DATA)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// The checksum as lmc computes it: over the document and all tensors in the order of their names.
fn checksum(document: &Value, file: &SafeTensors<'_>) -> String {
    let mut tensors = file.tensors();
    tensors.sort_by(|a, b| a.0.cmp(&b.0));
    let mut hasher = blake3::Hasher::new();
    hasher.update(document.to_string().as_bytes());
    for (name, tensor) in tensors {
        hasher.update(name.as_bytes());
        hasher.update(format!("{:?}", tensor.shape()).as_bytes());
        hasher.update(tensor.data());
    }
    hasher.finalize().to_hex().to_string()
}
