//! How many threads compute, and on which device. Results do not depend on the number of threads.

use anyhow::Result;
use burn::tensor::Device;
use clap::{Args, ValueEnum};
use lmc_streams::Error;

/// Arguments of all verbs that compute.
#[derive(Args, Debug, Clone, Copy)]
pub struct Compute {
    #[command(flatten)]
    pub threads: Threads,
    /// Where to compute: cpu, or gpu in a build with `--features wgpu`.
    #[arg(long, value_name = "DEVICE", default_value = "cpu", hide_possible_values = true)]
    device: DeviceName,
}

/// The number of threads.
#[derive(Args, Debug, Clone, Copy)]
pub struct Threads {
    /// Threads; by default one per core. Results do not depend on it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// A device by its name on the command line.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceName {
    // No doc comments: clap would print them, and every option of the verb on lines of its own.
    Cpu,
    Gpu,
}

impl DeviceName {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        }
    }

    /// Makes the device ready.
    pub fn init(self) -> Result<Device> {
        match self {
            Self::Cpu => Ok(Device::flex()),
            Self::Gpu => gpu(),
        }
    }
}

impl Compute {
    /// Sets the number of threads of the process and makes the device ready.
    pub fn init(self) -> Result<Device> {
        self.threads.apply()?;
        self.device.init()
    }
}

impl Threads {
    /// Sets the number of threads of the process.
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

#[cfg(feature = "wgpu")]
fn gpu() -> Result<Device> {
    let adapter = Device::wgpu_options().init();
    adapter.map_err(|error| {
        let problem = format!("no adapter can be used ({error})");
        Error::setting("--device gpu", problem, "leave it out to compute on the processor").into()
    })
}

#[cfg(not(feature = "wgpu"))]
fn gpu() -> Result<Device> {
    let cure = "build it with `cargo build --release --features wgpu`";
    Err(Error::setting("--device gpu", "this lmc was built for the processor only", cure).into())
}
