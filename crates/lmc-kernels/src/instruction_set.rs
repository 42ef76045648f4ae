//! Which vector instructions the kernels use: chosen when the program runs, not when it is built.

use std::fmt;
use std::sync::OnceLock;

use pulp::{Arch, WithSimd};

/// Environment variable that asks for a certain instruction set: `avx512`, `avx2`, `neon` or `portable`.
///
/// Results of different sets differ in the last bits; somebody who compares runs bit for bit across machines
/// wants the same set on all of them. A set that the machine lacks is ignored.
pub const VARIABLE: &str = "LMC_INSTRUCTION_SET";

/// An instruction set of this machine.
#[derive(Clone, Copy)]
pub struct InstructionSet(Arch);

impl InstructionSet {
    /// The fastest instruction set of this machine, or the one that [`VARIABLE`] asks for.
    pub fn best() -> Self {
        static BEST: OnceLock<InstructionSet> = OnceLock::new();
        *BEST.get_or_init(|| {
            let wanted = std::env::var(VARIABLE).unwrap_or_default();
            let found = Self::available().into_iter().find(|set| set.name() == wanted);
            found.unwrap_or(Self(Arch::new()))
        })
    }

    /// All instruction sets that this machine can run, fastest first.
    pub fn available() -> Vec<Self> {
        let mut sets = vec![Self(Arch::new())];
        #[cfg(target_arch = "x86_64")]
        if let (Arch::V4(_), Some(avx2)) = (Arch::new(), pulp::x86::V3::try_new()) {
            sets.push(Self(Arch::V3(avx2)));
        }
        if sets[0].name() != "portable" {
            sets.push(Self(Arch::Scalar));
        }
        sets
    }

    /// The instruction set's name, as [`VARIABLE`] takes it.
    pub fn name(self) -> &'static str {
        #[allow(unreachable_patterns)]
        match self.0 {
            Arch::Scalar => "portable",
            #[cfg(target_arch = "x86_64")]
            Arch::V3(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Arch::V4(_) => "avx512",
            _ => "neon",
        }
    }

    /// Runs work that is compiled once for every set.
    pub(crate) fn run<W: WithSimd>(self, work: W) -> W::Output {
        self.0.dispatch(work)
    }
}

impl fmt::Debug for InstructionSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
