//! Local Module Composition: a network that grows out of small modules and does not forget.
//!
//! The paper in the order in which it is told, a file for each idea:
//!
//! 1. **A module** ([`module`]) has a [`functional`] component, which computes, and a [`structural`] component, which says
//!    how well an input fits: a decoder that tells the input from the output, or an invertible map driven to zero.
//! 2. **A layer** ([`layer`]) runs its modules side by side; [`composition`] turns their scores into weights, without a
//!    task ID, and the layer's output is the weighted sum.
//! 3. **A network** ([`network`]) is layers and, for each task, a [`head`] with a structural component of its own.
//! 4. **Expansion** ([`expansion`]): every module remembers what its score usually is ([`statistics`]). When all modules
//!    of a layer find a batch unusual, a new one is added.
//! 5. **Projection** ([`projection`]): the new module first learns to give what the modules above it know.
//! 6. **The learner** ([`learner`], with one [`lesson`] per task) does this for task after task. What was learned is frozen.
//! 7. **Prediction** ([`prediction`]) finds the task of an image by itself: by structural loss, or by [`familiarity`];
//!    [`novelty`] says when there is none, and [`evaluation`] counts how often it is right.
//! 8. **Merging** ([`mod@merge`]) puts models that were trained apart side by side, without data and without training.
//!
//! [`presets`] are the hyperparameters of the paper. Around the method: [`adam`], a [`cache`] of what frozen modules say,
//! [`events`] for whoever watches, [`checkpoint`] for going on after a kill, model files ([`Learner::save`],
//! [`Learner::load`]), and [`tensors`], the walk over a network's tensors that all of these use.
//!
//! ```
//! use lmc::network::NetworkConfig;
//! use lmc::{Device, Learner, Material, presets};
//! use lmc_streams::{Catalog, DataDirs, OwnTask, Seed};
//!
//! let own = OwnTask { name: "digits".into(), size: 32, channels: 3, val_fraction: 0.2, seed: Seed::root(1) };
//! let task = own.read("generated-digits", &Catalog::new(DataDirs::default()))?;
//! let (train, val) = (task.train.thinned(64), task.val.thinned(64));
//!
//! let config = lmc::LearnerConfig { epochs: 1, ..presets::preset("own")? };
//! let network = NetworkConfig { width: 4, depth: 2, ..NetworkConfig::default() };
//! let mut learner = Learner::new(&network, config, 180, &Device::flex())?;
//! let material = Material { task: "digits", classes: &task.classes, train: &train, val: &val };
//! let learned = learner.learn(material, &mut |_, _| Ok(()))?;
//! assert_eq!(learned.modules, [1, 1]);
//! # Ok::<(), lmc::Error>(())
//! ```

pub mod adam;
pub mod cache;
pub mod checkpoint;
pub mod composition;
mod error;
pub mod evaluation;
pub mod events;
pub mod expansion;
pub mod familiarity;
pub mod functional;
pub mod head;
pub mod layer;
pub mod learner;
pub mod lesson;
pub mod merge;
pub mod module;
pub mod network;
pub mod novelty;
pub mod prediction;
pub mod presets;
pub mod projection;
mod record;
pub mod statistics;
pub mod structural;
mod tensor_file;
pub mod tensors;

pub use burn::tensor::Device;
pub use error::{Error, Result};
pub use learner::{Learned, Learner, LearnerConfig, Material};
