//! How many images a forward pass takes at once within the memory budget.

use lmc_streams::{MemoryBudget, size_text};

use super::Predictor;
use super::evaluation::Protocol;
use crate::error::{Error, Result};

impl Predictor {
    /// Images to classify at once: a batch, or fewer if the memory budget is small and images do not depend on each
    /// other.
    pub fn images_at_once(&self, protocol: Protocol) -> usize {
        match protocol {
            Protocol::Single => {
                let fitting = MemoryBudget::of_process().bytes() / self.bytes_per_image().max(1);
                self.batch.min(usize::try_from(fitting).unwrap_or(usize::MAX)).max(1)
            }
            Protocol::TaskGiven | Protocol::TaskBatch | Protocol::Mixed => self.batch.max(1),
        }
    }

    /// Complains about a batch beyond the memory budget, before it is computed.
    pub(super) fn check_memory(&self, images: usize) -> Result<()> {
        let needed = self.bytes_per_image().saturating_mul(images as u64);
        let budget = MemoryBudget::of_process().bytes();
        if needed <= budget {
            return Ok(());
        }
        let problem = format!(
            "a forward pass of {images} images of {0} × {0} pixels takes up to {1}, and the memory budget is {2}",
            self.preparation.size,
            size_text(needed),
            size_text(budget)
        );
        Err(Error::setting("memory", problem, "give more with --memory, or classify smaller batches"))
    }

    /// Bytes of a forward pass for each image, at most: the image, the first layer's outputs, which all views share, and
    /// input, outputs and combined output of the largest layer.
    fn bytes_per_image(&self) -> u64 {
        let area = |channels: usize, side: usize| (channels * side * side) as u64;
        let layer = |layer: &crate::network::layer::Layer| {
            let structural = &layer.config.structural;
            let input = area(structural.input_channels, structural.input_side);
            let output = area(structural.output_channels, structural.output_side);
            (input, output, output * layer.modules().len() as u64)
        };
        let layers: Vec<_> = self.layers.iter().map(layer).collect();
        let image = layers.first().map_or(0, |&(input, ..)| 2 * input);
        let shared = layers.first().map_or(0, |&(.., outputs)| outputs);
        let largest = layers.iter().map(|(input, output, outputs)| input + output + 2 * outputs).max();
        (image + shared + largest.unwrap_or(0)) * size_of::<f32>() as u64
    }
}
