//! A graphics card computes the same numbers as the processor. Runs in a build with `--features wgpu` where there is an
//! adapter (Debian's `mesa-vulkan-drivers` has one in software), and says `skipped` where there is none.
#![allow(clippy::unwrap_used)]

mod small;

#[test]
#[cfg(not(feature = "wgpu"))]
#[ignore = "built without the feature wgpu: cargo test -p lmc --features wgpu --test gpu"]
fn gpu_and_cpu_agree() {}

#[test]
#[cfg(feature = "wgpu")]
fn gpu_and_cpu_agree() {
    use std::io::Write;

    use lmc::internals::inference::BatchPrior;
    use lmc::internals::network::head::HeadSelection;
    use lmc::internals::tensors::{images, values};
    use lmc::{Device, Model, ModelConfig, Preset};

    let gpu = match Device::wgpu_options().init() {
        Ok(gpu) => gpu,
        Err(error) => {
            // Not by a macro: cargo hides what passing tests print with those.
            let _ = writeln!(std::io::stderr(), "skipped: gpu_and_cpu_agree: no adapter ({error})");
            return;
        }
    };
    let train = |device: &Device| -> (Model, Vec<f64>) {
        let config = ModelConfig {
            network: small::network(),
            learner: small::config(),
            device: device.clone(),
            ..ModelConfig::new(Preset::SMinus).seed(7)
        };
        let mut model = config.init().unwrap();
        let mut losses = Vec::new();
        model
            .learn_with(&small::task("digits"), &mut |_, event| {
                if let lmc::Event::Step { loss, .. } = event {
                    losses.push(loss);
                }
                Ok(())
            })
            .unwrap();
        (model, losses)
    };
    // Training: every loss, though rounding adds up over the steps.
    let ((on_cpu, cpu), (_, gpu_losses)) = (train(&Device::flex()), train(&gpu));
    assert_eq!(cpu.len(), gpu_losses.len());
    for (step, (cpu, gpu)) in cpu.iter().zip(&gpu_losses).enumerate() {
        assert!((cpu - gpu).abs() <= 1e-3 * cpu.abs(), "step {step}: {cpu} on the CPU, {gpu} on the GPU");
    }
    // Inference: every logit of the same model file.
    let bytes = on_cpu.to_bytes(std::path::Path::new("model")).unwrap();
    let on_gpu = Model::from_bytes(&bytes, std::path::Path::new("model"), &gpu).unwrap();
    let batch = small::first_batch("digits");
    let logits = |model: &Model| {
        let predictor = model.predictor().unwrap();
        let input = images(&batch, predictor.device());
        assert_eq!(values(&input).len(), batch.images.len());
        predictor.predict(&input, BatchPrior::Shared, HeadSelection::Given(0)).unwrap().logits
    };
    for (cpu, gpu) in logits(&on_cpu).iter().flatten().zip(logits(&on_gpu).iter().flatten()) {
        assert!((cpu - gpu).abs() <= 1e-4 * (1.0 + cpu.abs()), "{cpu} on the CPU, {gpu} on the GPU");
    }
}
