//! How many threads compute, in how much memory, and on which device. Results depend on neither threads nor memory.

use std::str::FromStr;

use anyhow::Result;
use burn::tensor::Device;
use clap::{Args, ValueEnum};
use lmc_streams::{Error, MemoryBudget};

/// Arguments of all verbs that compute.
#[derive(Args, Debug, Clone, Copy)]
pub struct Compute {
    /// Threads; by default one per core. Results do not depend on it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Memory for decoding pictures, batches and caches, as 512M or 2G; by default half of what there is. Results do
    /// not depend on it.
    #[arg(long, value_name = "SIZE")]
    memory: Option<MemorySize>,
    /// Where to compute: cpu, or gpu in a build with `--features wgpu`.
    #[arg(long, value_name = "DEVICE", default_value = "cpu", hide_possible_values = true)]
    device: DeviceName,
}

/// A number of bytes on the command line: `512M`, `1.5GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySize(pub u64);

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
        self.apply_threads()?;
        if let Some(MemorySize(bytes)) = self.memory {
            MemoryBudget::set(bytes)?;
        }
        self.device.init()
    }

    fn apply_threads(self) -> Result<()> {
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

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write a number and a unit, as 512M or 1.5G".to_owned();
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == ' ');
        let shift = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(wrong()),
        };
        let value: f64 = digits.parse().map_err(|_| wrong())?;
        let bytes = value * (1_u64 << shift) as f64;
        // Beyond this no machine goes, and u64 does not overflow.
        if bytes >= 1.0 && bytes <= (1_u64 << 60) as f64 { Ok(Self(bytes as u64)) } else { Err(wrong()) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let read = |text: &str| text.parse::<MemorySize>().ok().map(|MemorySize(bytes)| bytes);
        assert_eq!(read("512M"), Some(512 << 20));
        assert_eq!(read("1.5 GiB"), Some(3 << 29));
        assert_eq!(read("64kb"), Some(64 << 10));
        for wrong in ["", "12", "M", "-1G", "nanG", "infG", "1e30G", "1X", "4 µB", "0G"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
