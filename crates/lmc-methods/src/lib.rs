//! LMC and its rivals behind one small trait, a file each.
//!
//! 1. [`Method`] is all that the runner knows: it learns a task in epochs, answers, says how large it is, and can be put on
//!    disk between any two epochs.
//! 2. [`registry`] has the methods by name, each with its settings.
//! 3. What several methods share: [`trunk`], the network; [`monolith`], one network for all tasks with a head for each;
//!    [`pool`], modules that become more, and [`search`], how many a task needs; [`training`], settings and the
//!    book-keeping of a task; [`tally`], that of an epoch.
//!
//! | file | methods |
//! | --- | --- |
//! | [`finetune`] | Finetune, Finetune-L |
//! | [`experts`] | a network per task |
//! | [`ewc`] | EWC, as released, online |
//! | [`replay`] | ER, ER(A,S) |
//! | [`hat`] | hard attention to the task |
//! | [`mntdp`] | MNTDP, MNTDP(A) |
//! | [`soft_gating`] | SG-F, SG-F(A) |
//! | [`lmc_method`] | LMC(¬A), LMC(A), LMC(A,H) |
//! | [`lwf`] | learning without forgetting |
//! | [`features`] | nearest class mean, streaming LDA |

pub mod ewc;
pub mod experts;
pub mod features;
pub mod finetune;
pub mod hat;
pub mod lmc_method;
pub mod lwf;
pub mod method;
pub mod mntdp;
pub mod monolith;
pub mod pool;
pub mod registry;
pub mod replay;
pub mod search;
pub mod soft_gating;
pub mod tally;
pub mod training;
pub mod trunk;

pub use method::{Answer, Answers, Capacity, Hint, Listen, Method};
pub use registry::{Entry, MethodConfig, find, methods};
