//! LMC and the baselines that it is compared with, behind one small trait, a file each.
//!
//! 1. [`Method`] is all that the runner knows: a method learns a task in epochs, classifies, has a size, and can be put on
//!    disk between any two epochs.
//! 2. [`registry`] has the methods by name, each with its settings.
//! 3. Parts that several methods share: [`trunk`], layers and linear heads; [`headed_network`], a trunk with heads, and
//!    [`single_network`], its training for an [`Objective`](single_network::Objective); [`module_pool`], modules that
//!    become more, and [`search`], how many of them a task needs; [`training`], settings and the training of a task;
//!    [`checkpoint`], states in parts.
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
//! | [`class_means`] | nearest class mean, streaming LDA |

pub mod checkpoint;
pub mod class_means;
pub mod ewc;
pub mod experts;
pub mod finetune;
pub mod hat;
pub mod headed_network;
pub mod lmc_method;
pub mod lwf;
pub mod method;
pub mod mntdp;
pub mod module_pool;
pub mod registry;
pub mod replay;
pub mod search;
pub mod single_network;
pub mod soft_gating;
pub mod training;
pub mod trunk;

pub use method::{Capacity, Listen, Method};
pub use registry::{MethodConfig, MethodEntry, find, methods};
