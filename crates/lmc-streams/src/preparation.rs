//! stand-in until the branch of lmc-streams is merged
use crate::error::Result;
use crate::picture::Picture;
use crate::prepare::{Channels, Fit, Prepare};
use serde::{Deserialize, Serialize};
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Preparation {
    pub size: usize,
    pub channels: usize,
}
impl Default for Preparation {
    fn default() -> Self {
        Self { size: 32, channels: 3 }
    }
}
#[allow(missing_docs)]
impl Preparation {
    pub fn check(&self) -> Result<()> {
        Ok(())
    }
    pub fn prepare(&self) -> Prepare {
        Prepare {
            fit: Fit::CentreSquare(self.size),
            channels: if self.channels == 1 { Channels::Grey } else { Channels::Rgb },
            invert: false,
        }
    }
    pub fn apply(&self, picture: Picture) -> Picture {
        self.prepare().apply(picture)
    }
}
