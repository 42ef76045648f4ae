//! Responses of the first layer's frozen modules to every image of a set: computed once, not once an epoch.
//!
//! These modules see the raw images and never change, so their outputs and structural losses are constants of the set.
//! Losses always fit in memory; outputs are kept up to a limit, and beyond it they are computed again, at a third of the
//! cost of both.

use burn::tensor::{Device, Tensor};
use lmc_streams::{BatchConfig, TaskSet};

use super::TaskData;
use crate::error::Result;
use crate::network::layer::{CachedResponses, Layer};
use crate::tensors::{images, tensor, values};

/// Outputs and structural losses of the first layer's frozen modules for each image of a set.
#[derive(Clone, Debug)]
pub struct ResponseCache {
    modules: usize,
    /// Structural losses, `[image][module]`.
    losses: Vec<f32>,
    /// Outputs, `[image][module][row][column][channel]`: the order in which the kernels keep them.
    outputs: Option<Vec<f32>>,
    /// Shape of an output, `[channel, row, column]`.
    shape: [usize; 3],
}

impl ResponseCache {
    /// Runs the frozen modules over a set of a task; `None` if there are none. Outputs are kept if they fit into `limit` bytes.
    pub fn new(
        layer: &Layer,
        data: TaskData<'_>,
        set: &TaskSet,
        batch: usize,
        limit: usize,
        device: &Device,
    ) -> Result<Option<Self>> {
        let Some(packed) = layer.packed() else { return Ok(None) };
        let modules = layer.frozen_count();
        let side = layer.config.structural.output_side;
        let shape = [layer.config.functional.outputs, side, side];
        let size = set.len() * modules * shape.iter().product::<usize>();
        let keep = size.saturating_mul(size_of::<f32>()) <= limit;
        let mut cache = Self {
            modules,
            losses: vec![0.0; set.len() * modules],
            outputs: keep.then(|| vec![0.0; size]),
            shape,
        };
        for batch in BatchConfig::stored(batch).init(set)? {
            data.check_stop()?;
            let images = images(&batch, device);
            let outputs = packed.outputs(images.clone())?;
            let losses = values(&packed.losses(outputs.clone(), images, false)?); // [module, image]
            let count = batch.positions.len();
            for (row, &position) in batch.positions.iter().enumerate() {
                for module in 0..modules {
                    cache.losses[position as usize * modules + module] = losses[module * count + row];
                }
            }
            if let Some(kept) = &mut cache.outputs {
                let area: usize = shape.iter().product();
                let outputs = values(&outputs.permute([0, 1, 3, 4, 2]));
                for (row, &position) in batch.positions.iter().enumerate() {
                    for module in 0..modules {
                        let from = (module * count + row) * area;
                        let to = (position as usize * modules + module) * area;
                        kept[to..to + area].copy_from_slice(&outputs[from..from + area]);
                    }
                }
            }
        }
        Ok(Some(cache))
    }

    /// Bytes that the kept outputs take.
    pub fn bytes(&self) -> usize {
        self.outputs.as_ref().map_or(0, |outputs| outputs.len() * size_of::<f32>())
    }

    /// The responses to the images at these positions of the set.
    pub fn responses(&self, positions: &[u32], device: &Device) -> CachedResponses {
        let (modules, count) = (self.modules, positions.len());
        let mut losses = Vec::with_capacity(modules * count);
        for module in 0..modules {
            losses
                .extend(positions.iter().map(|&position| self.losses[position as usize * modules + module]));
        }
        let outputs = self.outputs.as_ref().map(|kept| {
            let area: usize = self.shape.iter().product();
            let [channels, height, width] = self.shape;
            let mut outputs = Vec::with_capacity(modules * count * area);
            for module in 0..modules {
                for &position in positions {
                    let from = (position as usize * modules + module) * area;
                    outputs.extend_from_slice(&kept[from..from + area]);
                }
            }
            let outputs: Tensor<5> = tensor(outputs, [modules, count, height, width, channels], device);
            outputs.permute([0, 1, 4, 2, 3])
        });
        CachedResponses { outputs, losses: Some(tensor(losses, [modules, count], device)) }
    }
}
