//! Verification of a model file: its checksum, the bounds of all that it says, and the laws that every model obeys.
//!
//! Loading checks checksum, shapes, ranges and names. Here, in addition: everything is frozen, the file holds exactly what
//! the model would be saved as, and pictures get finite scores, probabilities that sum to 1 and weights that sum to 1 in
//! every layer, under every head.

use std::path::Path;

use burn::tensor::Device;
use lmc_streams::{Picture, read_file};
use serde::Serialize;

use super::record::damaged;
use super::{LARGEST_FILE, tensor_file};
use crate::error::Result;
use crate::inference::evaluation::Protocol;
use crate::model::Model;
use crate::tensors::parameter_count;

/// What a whole model file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Hash of the file, as hexadecimal digits.
    pub fingerprint: String,
    /// Length of the file.
    pub bytes: usize,
    /// Format of the file.
    pub format: u32,
    /// Number of tasks.
    pub tasks: usize,
    /// Number of modules.
    pub modules: usize,
    /// Number of parameters.
    pub parameters: usize,
}

/// Verifies a model file; the error says what is wrong.
pub fn verify(path: &Path) -> Result<Verified> {
    let bytes = read_file(path, LARGEST_FILE)?;
    let model = Model::from_bytes(&bytes, path, &Device::flex())?;
    let format = tensor_file::format(&bytes);
    if model.network.has_trainable_modules() || model.network.heads.iter().any(|head| !head.frozen) {
        return Err(damaged(path, "a module or a head is not frozen".into()));
    }
    // Files of earlier formats say the same in other words.
    if format == tensor_file::FORMAT && model.to_bytes(path)? != bytes {
        return Err(damaged(path, "it is not what its model would be saved as".into()));
    }
    check_predictions(&model, path)?;
    Ok(Verified {
        fingerprint: blake3::hash(&bytes).to_hex().to_string(),
        bytes: bytes.len(),
        format,
        tasks: model.network.heads.len(),
        modules: model.network.modules().iter().sum(),
        parameters: parameter_count(&model.network),
    })
}

/// Complains unless every head classifies pictures as it must.
fn check_predictions(model: &Model, path: &Path) -> Result<()> {
    if model.network.heads.is_empty() {
        return Ok(());
    }
    let side = model.network.config.size;
    let ramp = Picture {
        width: side,
        height: side,
        channels: 1,
        pixels: (0..side * side).map(|at| (at * 255 / (side * side)) as u8).collect(),
    };
    let pictures = [Picture::filled(side, side, [127, 63, 191]), ramp];
    for task in model.tasks().map(Some).chain([None]) {
        for found in model.predict_all(&pictures, Protocol::Single, task)? {
            let whole = |weights: &Vec<f64>| (weights.iter().sum::<f64>() - 1.0).abs() < 1e-6;
            if !(0.0..=1.0 + 1e-9).contains(&found.probability) || !found.module_weights.iter().all(whole) {
                let problem = format!("task '{}' gives impossible probabilities or weights", found.task);
                return Err(damaged(path, problem));
            }
        }
    }
    Ok(())
}
