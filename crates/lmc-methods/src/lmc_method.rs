//! LMC itself as a method. LMC(A) and LMC(¬A) are one run, asked without and with the task; LMC(A,H) selects one module
//! per layer and image.

use std::path::Path;

use burn::tensor::{Device, Tensor};
use lmc::checkpoint::{self, State};
use lmc::composition::Selection;
use lmc::head::HeadSelection;
use lmc::network::NetworkConfig;
use lmc::prediction::{Company, Predictions, Predictor};
use lmc::tensors::parameter_count;
use lmc::{Learned, Learner, LearnerConfig, Material, Result, presets};

use crate::method::{Answer, Answers, Capacity, Hint, Listen, Method};
use crate::registry::MethodConfig;
use crate::trunk::layer_multiply_adds;

impl MethodConfig for LearnerConfig {
    type Method = Learner;

    fn preset(name: &str, preset: &str) -> Result<Self> {
        let mut config = presets::preset(preset)?;
        if name == "lmc_a_hard" {
            config.composition.selection = Selection::Hard;
        }
        Ok(config)
    }

    fn check(&self) -> Result<()> {
        self.check()
    }

    fn init(&self, network: &NetworkConfig, seed: u64, device: &Device) -> Result<Learner> {
        Learner::new(network, self.clone(), seed, device)
    }
}

impl Method for Learner {
    fn begin(&mut self, material: Material<'_>) -> Result<()> {
        self.begin(material)
    }

    fn epoch(&mut self, material: Material<'_>, listen: Listen<'_>) -> Result<bool> {
        self.epoch(material, &mut |_, event| listen(event))?;
        Ok(self.lesson.as_ref().is_some_and(|lesson| lesson.epoch < lesson.epochs))
    }

    fn finish(&mut self, material: Material<'_>) -> Result<Learned> {
        let learned = self.finish()?;
        self.calibrate(self.network.heads.len() - 1, material.val)?;
        Ok(learned)
    }

    fn progress(&self) -> Option<(usize, usize)> {
        self.lesson.as_ref().map(|lesson| (lesson.epoch, lesson.epochs))
    }

    fn answers(&self) -> Result<Box<dyn Answers>> {
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
        checkpoint::state(self)
    }

    fn restore(&mut self, state: State) -> Result<()> {
        *self = checkpoint::restore(state, Path::new("checkpoint"), &self.network.device.clone().inner())?;
        Ok(())
    }

    fn save_model(&self, path: &Path) -> Result<()> {
        self.save(path)
    }
}

impl Answers for Predictor {
    fn answer(&self, images: &Tensor<4>, hints: &[Hint]) -> Result<Vec<Vec<Answer>>> {
        let mut looks = [None, None];
        let mut answers = Vec::with_capacity(hints.len());
        for hint in hints {
            let (company, selection) = match *hint {
                Hint::Task(task) => (Company::Batch, HeadSelection::Given(task)),
                Hint::SameTask => (Company::Batch, HeadSelection::Batch),
                Hint::Mixed => (Company::Batch, HeadSelection::Sample),
                Hint::Alone => (Company::Alone, HeadSelection::Sample),
            };
            let place = usize::from(company == Company::Alone);
            if looks[place].is_none() {
                looks[place] = Some(self.look(images, company)?);
            }
            if let Some(look) = &looks[place] {
                answers.push(answers_of(&look.answer(selection)?));
            }
        }
        Ok(answers)
    }
}

fn answers_of(predictions: &Predictions) -> Vec<Answer> {
    let answer = |image: usize| Answer {
        task: predictions.heads[image],
        label: predictions.label(image) as u32,
        weights: predictions.weights(image),
    };
    (0..predictions.heads.len()).map(answer).collect()
}
