//! Local Module Composition: a network that grows out of small modules and does not forget.
//!
//! ```
//! # use lmc::{Model, ModelConfig, Picture, Preset};
//! # use lmc_streams::{Catalog, DataDirs, OwnTask, Seed};
//! # fn main() -> lmc::Result<()> {
//! # let own = OwnTask { name: "digits".into(), val_fraction: 0.2, seed: Seed::root(1), ..OwnTask::default() };
//! # let mut task = own.read("generated-digits", &Catalog::new(DataDirs::default()))?;
//! # let picture = task.test.picture(0);
//! # (task.train, task.val) = (task.train.thinned(60), task.val.thinned(60));
//! # let folder = std::env::temp_dir().join(format!("lmc-front-page-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).map_err(lmc_streams::Error::io("create", &folder))?;
//! # let file = folder.join("shop.lmc");
//! let mut model = Model::new(Preset::Own)?;                           // the paper's sizes, or:
//! let mut model = ModelConfig::new(Preset::Own).width(8).seed(7).init()?;
//! model.learn(&task)?;                                                // or learn_with(&task, &mut observer)
//! let found = model.predict(&picture)?;                               // the task is not given
//! println!("{} of task {}, {:.0} %", found.class, found.task, 100.0 * found.probability);
//! # assert_eq!(found.task, "digits");
//! # assert!(task.classes.contains(&found.class));
//! # assert_eq!(found.module_weights, vec![vec![1.0]; 4]);
//! model.save(&file)?;
//! let other = Model::load(&file)?;
//! # assert_eq!(other.predict(&picture)?, found);
//! let both = Model::merge([model, other])?;                           // no data, no training
//! # assert_eq!(both.network.modules(), [2, 2, 2, 2]);
//! # std::fs::remove_dir_all(&folder).map_err(lmc_streams::Error::io("remove", &folder))?;
//! # Ok(())
//! # }
//! ```
//!
//! The ideas of the paper in their order, a file for each:
//!
//! 1. **A module** ([`internals::module`]) has a *functional* component, which computes ([`internals::module::functional`]), and a *structural*
//!    component, which scores how well an input fits ([`internals::module::structural`]): a decoder that reconstructs the module's
//!    input from its output, or an invertible map driven to zero. The structural loss is small for familiar inputs.
//! 2. **A layer** ([`internals::network::layer`]) runs its modules side by side; [`internals::network::composition`] turns their structural losses
//!    into weights, without a task ID, and the layer's output is the weighted sum.
//! 3. **A network** ([`internals::network`]) is layers and, for each task, a head with a structural component of its own
//!    ([`internals::network::head`]). [`internals::network::forward`] is the forward pass, the only loop over layers.
//! 4. **Expansion** ([`internals::growth::expansion`]): every module keeps the mean and deviation of its structural loss
//!    ([`internals::module::statistics`]). When a batch is an outlier for all modules of a layer, a new one is added.
//! 5. **Projection** ([`internals::growth::projection`]): the new module is first trained to give outputs that the modules above it know.
//! 6. **Training** ([`internals::training`]) does this batch by batch. When a task is learned, everything is frozen.
//! 7. **Inference** ([`internals::inference`]) finds the task of an image by itself: by structural loss, or by the distribution of each
//!    task's scores; an image that fits none is new; the evaluator counts how often it is right.
//! 8. **Merging** ([`Model::merge`]) puts models that were trained apart side by side, without data and without training.
//!
//! [`Preset`] has the hyperparameters of the paper, [`Model::save`] writes the model file, and an [`Observer`] hears
//! [`Event`]s while a task is learned.
//!
//! The facade is what stands at the root of this crate: [`Model`], and what goes in and out of it. All else is behind
//! [`internals`].

mod error;
mod events;
mod file;
mod growth;
mod inference;
mod merge;
mod model;
mod module;
mod network;
mod prediction;
mod presets;
mod tensors;
mod training;

pub mod internals;

pub use burn::tensor::Device;
pub use error::{Error, Result};
pub use events::Event;
pub use inference::evaluation::{Accuracy, EvalCounts, Evaluation, Protocol, TestSet};
pub use lmc_streams::{Picture, Preparation, Task};
pub use merge::MergeReport;
pub use model::{Model, ModelConfig, Observer};
pub use network::NetworkConfig;
pub use prediction::Prediction;
pub use presets::Preset;
pub use training::config::LearnerConfig;
pub use training::{TaskData, TaskReport};
