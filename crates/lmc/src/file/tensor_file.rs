//! Named tensors and a JSON document in one safetensors file that Python can open, with a checksum over both.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::tensors::NamedTensor;

/// The newest format that this version reads and the one that it writes.
pub(crate) const FORMAT: u32 = 3;
/// The key under which the header's metadata hold our document. One key: a map of several has no order.
const KEY: &str = "lmc";
/// No header of ours comes near this.
const LONGEST_HEADER: u64 = 64 << 20;

/// Document of a file, as the header holds it.
#[derive(Serialize, Deserialize)]
struct Envelope {
    format: u32,
    kind: String,
    checksum: String,
    document: Value,
}

/// Tensors by name.
pub(crate) type Tensors = BTreeMap<String, NamedTensor>;

/// The bytes of a file.
pub(crate) fn write(
    kind: &str,
    document: &impl Serialize,
    tensors: &[NamedTensor],
    path: &Path,
) -> Result<Vec<u8>> {
    let fail = |problem: String| Error::bad(path, problem, "report this as a bug of lmc");
    let document = serde_json::to_value(document).map_err(|error| fail(error.to_string()))?;
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|plain| (plain.name.clone(), plain.shape.clone(), to_bytes(&plain.values)))
        .collect();
    let checksum =
        checksum(&document, bytes.iter().map(|(name, shape, data)| (name.as_str(), &shape[..], &data[..])));
    let envelope = Envelope { format: FORMAT, kind: kind.to_owned(), checksum, document };
    let text = serde_json::to_string(&envelope).map_err(|error| fail(error.to_string()))?;
    let views = bytes
        .iter()
        .map(|(name, shape, data)| {
            let view = TensorView::new(Dtype::F32, shape.clone(), data);
            view.map(|view| (name.clone(), view)).map_err(|error| fail(error.to_string()))
        })
        .collect::<Result<Vec<_>>>()?;
    serialize(views, Some(HashMap::from([(KEY.to_owned(), text)]))).map_err(|error| fail(error.to_string()))
}

/// Document and tensors of a file.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(
    kind: &str,
    bytes: &[u8],
    path: &Path,
) -> Result<(T, Tensors)> {
    let damaged = |problem: String| {
        Error::bad(path, format!("this is not a whole {kind} of lmc: {problem}"), "take it from a backup")
    };
    let length = bytes.first_chunk::<8>().map(|length| u64::from_le_bytes(*length));
    match length {
        None => return Err(damaged(format!("it has only {} bytes", bytes.len()))),
        Some(length) if length > LONGEST_HEADER => {
            return Err(damaged(format!("its header claims {length} bytes")));
        }
        Some(_) => {}
    }
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|error| damaged(error.to_string()))?;
    let text = metadata.metadata().as_ref().and_then(|metadata| metadata.get(KEY));
    let Some(text) = text else {
        let problem = format!("this is a safetensors file, but not a {kind} of lmc");
        return Err(Error::bad(path, problem, "name a file that lmc wrote"));
    };
    let envelope: Value = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
    if let Some(format) = envelope["format"].as_u64().filter(|&format| format > u64::from(FORMAT)) {
        let problem = format!("it has format {format}, and this lmc reads up to {FORMAT}");
        return Err(Error::bad(path, problem, "update lmc"));
    }
    let envelope: Envelope = serde_json::from_value(envelope).map_err(|error| damaged(error.to_string()))?;
    if envelope.kind != kind {
        let problem = format!("this is a {} of lmc, not a {kind}", envelope.kind);
        return Err(Error::bad(path, problem, format!("name a {kind}")));
    }
    let file = SafeTensors::deserialize(bytes).map_err(|error| damaged(error.to_string()))?;
    let mut views = file.tensors();
    views.sort_by(|a, b| a.0.cmp(&b.0));
    let found = checksum(
        &envelope.document,
        views.iter().map(|(name, view)| (name.as_str(), view.shape(), view.data())),
    );
    // A fuzzer would never get past it.
    if found != envelope.checksum && !cfg!(fuzzing) {
        return Err(damaged("its checksum does not match its content".into()));
    }
    let mut tensors = Tensors::new();
    for (name, view) in views {
        if view.dtype() != Dtype::F32 {
            return Err(damaged(format!("tensor '{name}' holds {:?} numbers, not F32", view.dtype())));
        }
        let values: Vec<f32> = view
            .data()
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(damaged(format!("tensor '{name}' holds {value}")));
        }
        let shape = view.shape().to_vec();
        tensors.insert(name.clone(), NamedTensor { name, shape, values });
    }
    let document = serde_json::from_value(envelope.document).map_err(|error| damaged(error.to_string()))?;
    Ok((document, tensors))
}

/// The format of a file that has been read.
pub(crate) fn format(bytes: &[u8]) -> u32 {
    let found = || {
        let (_, metadata) = SafeTensors::read_metadata(bytes).ok()?;
        let envelope: Envelope = serde_json::from_str(metadata.metadata().as_ref()?.get(KEY)?).ok()?;
        Some(envelope.format)
    };
    found().unwrap_or(FORMAT)
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Over the document and all tensors in the order of their names.
fn checksum<'a>(document: &Value, tensors: impl Iterator<Item = (&'a str, &'a [usize], &'a [u8])>) -> String {
    let mut tensors: Vec<_> = tensors.collect();
    tensors.sort_by_key(|(name, ..)| *name);
    let mut hasher = blake3::Hasher::new();
    hasher.update(document.to_string().as_bytes());
    for (name, shape, data) in tensors {
        hasher.update(name.as_bytes());
        hasher.update(format!("{shape:?}").as_bytes());
        hasher.update(data);
    }
    hasher.finalize().to_hex().to_string()
}
