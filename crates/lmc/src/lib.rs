//! Local Module Composition: a network that grows out of small modules, whose old parameters never change.
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
//! The ideas in order, with where each lives (what is not the paper's is marked as ours):
//!
//! 1. **A module** ([`internals::module`]) has a *functional* component, which computes
//!    ([`internals::module::functional`]), and a *structural* component, which scores how well an input fits
//!    ([`internals::module::structural`]): a decoder that reconstructs the module's input from its output, or an
//!    invertible map whose output is trained towards zero. Its loss is small for familiar inputs.
//! 2. **A layer** ([`internals::network::layer`]) runs its modules side by side; [`internals::network::composition`]
//!    turns their structural losses L into weights, without a task ID: for each image a softmax over modules of -log L
//!    / τ, times a prior from the batch's mean losses (for an image on its own, from its own), normalised. No gradient
//!    flows through weights. The layer's output is the weighted sum.
//! 3. **A network** ([`internals::network`]) is layers and, for each task, a head with a structural component of its
//!    own ([`internals::network::head`]). [`internals::network::forward`] is the forward pass, the only loop that
//!    passes images through the layers.
//! 4. **Expansion** ([`internals::growth::expansion`]): every module keeps the mean μ and deviation σ of its structural
//!    loss over the last batches that it was trained on ([`internals::module::statistics`]). The first task gives every
//!    layer one random module. From the second task on, when a batch's mean loss is unusually high or low (|mean - μ| /
//!    σ >= z') for all modules of a layer, one is added, at most one per layer and task and none during projection. It
//!    starts as the mean of the layer's modules, as a copy, or at random. With switches of ours statistics are taken
//!    once from all images of a task when it ends, and layers are tested between phases by the mean z of all images of
//!    the new task ([`internals::growth::task_losses`]), because a few hundred images make no reliable window.
//! 5. **Projection** ([`internals::growth::projection`]): for some epochs the new module is also trained by the
//!    structural losses of the modules above it, so that its outputs fit them: the weighted losses of all modules are
//!    in the objective. Meanwhile nothing is added or validated. A network's first epochs count as such a phase.
//! 6. **Training** ([`internals::training`]) minimises cross-entropy + λ structural losses (of the head and of
//!    trainable modules), batch by batch; by default a module's own structural loss trains its structural component
//!    only. At the end the network of the epoch with the best validation accuracy is restored (modules added later are
//!    dropped; with preset `Own` the best epoch comes after the last addition, and modules are dropped if a head on old
//!    modules is clearly more accurate, [`internals::growth::gain`]), everything is frozen, and the head is calibrated: how the task's images look, which modules they need, and the
//!    distribution of the head's and layers' losses ([`internals::inference::calibration`]).
//! 7. **Inference** ([`internals::inference`]) finds the head without a task ID, for each image or one for a batch of
//!    one task. In the paper by the smallest structural loss behind all modules, which all compete for every image, so
//!    that later modules can change old predictions though no old parameter changes. With the preset `Own` (ours) the
//!    head is found first, by how the image looks ([`internals::inference::signature`]), and classifies from the modules
//!    that were there when its task was learned, under a prior that it stored ([`internals::inference::route`]): with
//!    the task given its predictions never change, alone and in a batch they are the same, and modules that it does not
//!    need are not run ([`internals::inference::head_first`]). An image unlike all images of its likeliest task is new
//!    (ours). [`internals::inference::evaluation`] measures accuracy under the four test [`Protocol`]s.
//! 8. **Merging** ([`Model::merge`]) puts the modules of models that were trained apart side by side in each layer, and
//!    their heads one after another, without data and without training.
//!
//! [`Preset`] has the hyperparameters of the paper, [`Model::save`] writes the model file, and an [`Observer`] hears
//! [`Event`]s while a task is learned. Programs that change a model file which others may change too, or which may be
//! killed, go through [`ModelFile`]: one owner at a time, nothing overwritten unseen, interrupted tasks that go on.
//!
//! The facade is what stands at the root of this crate: [`Model`], and what goes in and out of it. All else is behind
//! [`internals`].

mod error;
mod events;
mod file;
mod forget;
mod growth;
mod inference;
mod merge;
mod model;
mod module;
mod network;
mod prediction;
mod presets;
mod rename;
mod tensors;
mod training;

pub mod internals;

pub use burn::tensor::Device;
pub use error::{Error, Result};
pub use events::Event;
pub use file::history::{Act, History, HistoryEntry, LearnedFrom};
pub use file::model_file::ModelFile;
pub use forget::ForgetReport;
pub use growth::gain::{DropReason, DroppedModules};
pub use growth::task_losses::ExpansionTest;
pub use inference::evaluation::{Accuracy, Counting, EvalCounts, Evaluation, Protocol, TestSet};
pub use lmc_streams::{Picture, Preparation, Task};
pub use merge::MergeReport;
pub use model::{Model, ModelConfig, Observer};
pub use network::NetworkConfig;
pub use prediction::{ClassShare, Prediction, TaskEvidence, TaskShare};
pub use presets::Preset;
pub use training::config::LearnerConfig;
pub use training::extension::ExtensionReport;
pub use training::{TaskData, TaskReport};
