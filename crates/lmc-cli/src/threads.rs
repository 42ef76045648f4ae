//! How many threads compute, and where. Results do not depend on it.

use anyhow::Result;
use burn::tensor::Device;
use clap::Args;
use lmc_streams::Error;

/// Arguments that all computing verbs share.
#[derive(Args, Debug, Clone, Copy)]
pub struct Threads {
    /// Threads; by default one per core. Results do not depend on it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl Threads {
    /// For the whole process.
    pub fn apply(self) -> Result<()> {
        let Some(threads) = self.threads else { return Ok(()) };
        if !(1..=1024).contains(&threads) {
            return Err(
                Error::setting("--threads", format!("{threads} is not possible"), "use 1 to 1024").into()
            );
        }
        rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
        Ok(())
    }
}

/// Where models are computed.
pub fn device() -> Device {
    Device::flex()
}
