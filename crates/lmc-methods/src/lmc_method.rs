//! LMC itself as a method. LMC(A) and LMC(¬A) are one run, evaluated without and with the task ID; LMC(A,H) selects one
//! module per layer and image.

use std::path::Path;

use burn::tensor::Device;
use lmc::internals::inference::evaluation::Classify;
use lmc::internals::network::composition::Selection;
use lmc::internals::tensors::parameter_count;
use lmc::internals::training::checkpoint::State;
use lmc::internals::training::config::EpochBudget;
use lmc::{
    LearnerConfig, Model, ModelConfig, NetworkConfig, Preparation, Preset, Result, TaskData, TaskReport,
};

use lmc_streams::replace_file;

use crate::method::{Capacity, Listen, Method};
use crate::registry::MethodConfig;
use crate::trunk::layer_multiply_adds;

impl MethodConfig for LearnerConfig {
    type Method = Model;

    fn preset(name: &str, preset: &str) -> Result<Self> {
        let mut config = preset.parse::<Preset>()?.learner();
        // An experiment says how many epochs a task gets; only users' models count by images.
        config.budget = EpochBudget::Fixed;
        if name == "lmc_a_hard" {
            config.composition.selection = Selection::Hard;
        }
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        self.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Model> {
        let (network, learner, device) = (network.clone(), self.clone(), device.clone());
        ModelConfig { network, learner, preparation: Preparation::default(), seed, device }.init()
    }
}

impl Method for Model {
    fn begin(&mut self, data: TaskData<'_>) -> Result<()> {
        self.begin(data)
    }

    fn epoch(&mut self, data: TaskData<'_>, listen: Listen<'_>) -> Result<bool> {
        self.epoch(data, &mut |_, event| listen(event))?;
        Ok(self.progress().is_some_and(|(done, epochs)| done < epochs))
    }

    fn finish(&mut self, data: TaskData<'_>) -> Result<TaskReport> {
        self.finish(data)
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.progress()
    }

    fn classifier(&self) -> Result<Box<dyn Classify>> {
        Ok(Box::new(self.predictor()?))
    }

    fn normalises(&self) -> bool {
        false
    }

    fn capacity(&self) -> Capacity {
        let modules = self.network.modules();
        let config = &self.network.config;
        // All modules of a layer compute; their decoders do about as much again, layer by layer.
        let layers = layer_multiply_adds(config).into_iter().zip(config.layers()).zip(&modules);
        let trunk: u64 = layers
            .map(|((functional, layer), &modules)| {
                (functional + layer.structural.multiply_adds()) * modules as u64
            })
            .sum();
        let features = config.features() as u64;
        let heads: u64 = self
            .network
            .heads
            .iter()
            .map(|head| features * head.classes.len() as u64 + features * features / 2)
            .sum();
        Capacity { modules, parameters: parameter_count(&self.network), multiply_adds: trunk + heads }
    }

    fn state(&self) -> Result<State> {
        self.state()
    }

    fn restore(&mut self, state: State) -> Result<()> {
        *self = Self::from_state(state, Path::new("checkpoint"), &self.network.device.clone().inner())?;
        Ok(())
    }

    fn save_model(&self, path: &Path) -> Result<()> {
        // The run directory is locked already.
        Ok(replace_file(path, &self.to_bytes(path)?)?)
    }
}
