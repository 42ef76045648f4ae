//! Data becomes tasks.
//!
//! The paper learns from *streams*: tasks that come one after the other and never return the same. This
//! crate gives them to everything else in the project, in five steps, each a file or a folder:
//!
//! 1. [`formats`] reads pictures and labels from the formats in which data sets are published and from
//!    users' own folders, CSV lists, `.npz` and parquet files; [`generated`] draws pictures on machines
//!    without data. All give a [`Dataset`]: 8-bit images, labels, class names, ranks. [`Picture::open`] reads
//!    a single file, and a model's [`Preparation`] brings pictures to its size.
//! 2. [`datasets`] knows the public sets by name: where they lie, where they can be had, their checksums.
//! 3. [`StreamPlan`] says which images, by class and rank, make up which [`Task`]; the paper's own plans are
//!    inside the crate, others are drawn from a [`Seed`] by the same rules, or come from a [`StreamFile`].
//! 4. [`catalog::Catalog`] loads a plan's images, and no others, into a [`Stream`].
//! 5. [`BatchConfig`] turns a [`TaskSet`] into batches of floats for a network.
//!
//! [`OwnTask`] is the short way from a user's data to one [`Task`], with a [`ReadReport`] on what was read.
//!
//! Features, none of which is on by default: `archives` (`.npz`, `.zip`, `.tar.gz`), `parquet`, `download`
//! (the module `datasets::get`), `sheets` (the module `sheet`), and `full`, all four.
//!
//! ```
//! use lmc_streams::{BatchConfig, Catalog, DataDirs, Seed, StreamRequest, Variant};
//!
//! let catalog = Catalog::new(DataDirs::default()); // nothing on this machine: generated images
//! let request = StreamRequest { variant: Variant::GeneratedMini, ..StreamRequest::named("s_minus") };
//! let stream = catalog.stream(&request)?;
//! let first = &stream.tasks[0];
//! let epoch = Seed::root(1).named("batches").numbered(0);
//! for batch in BatchConfig::shuffled(64, epoch).init(&first.train)? {
//!     assert_eq!(batch.shape[1..], [3, 32, 32]);
//! }
//! # Ok::<(), lmc_streams::Error>(())
//! ```

mod batches;
pub mod catalog;
mod content_hash;
mod dataset;
pub mod datasets;
mod error;
pub mod formats;
pub mod generated;
mod image_set;
mod memory;
pub mod names;
mod normalisation;
mod own_task;
mod picture;
mod plan;
mod preparation;
mod prepare;
mod read_report;
pub mod regular_file;
mod replace_file;
pub mod resize;
mod seed;
#[cfg(feature = "sheets")]
pub mod sheet;
mod split;
mod stream;
mod stream_file;
mod task;
mod transform;

pub use batches::{Batch, BatchConfig, Batches, Order, PixelScale};
pub use catalog::{Catalog, PAPER_SEED, PAPER_STREAMS, PaperStream, StreamRequest};
pub use content_hash::content_hash;
pub use dataset::{Dataset, Keep, ReadOptions, Split};
pub use datasets::dirs::DataDirs;
pub use datasets::locate::Located;
pub use error::{Error, Place, Result, nearest};
pub use formats::decode::DecodeProblem;
pub use formats::listing::{PictureListing, pictures_below};
pub use image_set::{ImageSet, ImageShape};
pub use memory::{LEAST_BUDGET, MemoryBudget};
pub use normalisation::Normalisation;
pub use own_task::OwnTask;
pub use picture::Picture;
pub use plan::{ClassPlan, Draw, StreamPlan, TaskPlan, Variant};
pub use preparation::{FitKind, Preparation, Resampling};
pub use prepare::{Channels, Fit, Prepare};
pub use read_report::{ClassReport, DamagedPicture, LeftOut, ReadReport, SkippedFiles};
pub use regular_file::{open_file, read_file, read_text, size_text};
pub use replace_file::{
    PreparedFile, TEMPORARY, create_file_like, folder_of, followed, remove_leftovers, replace_file,
    replace_file_like, replaceable,
};
pub use seed::{Random, Seed};
pub use split::{Pools, Survey};
pub use stream::Stream;
pub use stream_file::{Amount, Classes, StreamFile, TaskEntry};
pub use task::{Task, TaskSet};
pub use transform::{Colour, Looks, Transform};
