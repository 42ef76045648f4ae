//! The backward passes of our kernels, for burn's autodiff around its CPU backend.

use std::sync::Arc;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend, Flex, TensorMetadata};

use super::flex::{
    self, DecoderBlock, FunctionalBlock, PooledBlock, Primitive, channels_last, images, module_images,
    numbers, tensor, vector,
};
use super::{
    DecoderTensors, FrozenDecoderTensors, FrozenFunctionalTensors, FunctionalTensors, KernelBackend, Kernels,
    PackedOnce, TrainedTensors,
};
use crate::conv::ConvShape;
use crate::decoder::FrozenDecoder;
use crate::functional::{FrozenFunctional, WantedGradients};
use crate::instruction_set::InstructionSet;
use crate::scratch::Scratch;
use crate::{decoder, functional, reference, weighted_sum};

impl<C: CheckpointStrategy> KernelBackend for Autodiff<Flex, C> {
    fn functional_train(
        input: FloatTensor<Self>,
        parameters: FunctionalTensors<Self>,
        padding: usize,
        kernels: Kernels,
    ) -> TrainedTensors<Self> {
        if kernels == Kernels::Reference {
            return reference::functional_train::<Self>(input, parameters, padding);
        }
        let FunctionalTensors { weight, bias, gamma, beta } = parameters;
        let nodes = [input.node(), weight.node(), bias.node(), gamma.node(), beta.node()];
        let parameters = FunctionalTensors {
            weight: weight.into_primitive(),
            bias: bias.into_primitive(),
            gamma: gamma.into_primitive(),
            beta: beta.into_primitive(),
        };
        let block = FunctionalBlock::new(&input.into_primitive(), &parameters, padding);
        let (trained, saved) = block.train();
        let output = match FunctionalBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish((block, Arc::new(saved)), trained.output),
            OpsKind::UnTracked(prepared) => prepared.finish(trained.output),
        };
        without_gradient::<C>(output, trained.mean, trained.variance)
    }

    fn functional_frozen(
        input: FloatTensor<Self>,
        parameters: FrozenFunctionalTensors<Self>,
        packed: PackedOnce<FrozenFunctional>,
        padding: usize,
        kernels: Kernels,
    ) -> FloatTensor<Self> {
        if kernels == Kernels::Reference {
            return reference::functional_frozen::<Self>(&input, &parameters, padding);
        }
        let prepared = FrozenFunctionalBackward.prepare::<C>([input.node()]).compute_bound().stateful();
        let input = input.into_primitive();
        let parameters = FrozenFunctionalTensors {
            weight: parameters.weight.into_primitive(),
            bias: parameters.bias.into_primitive(),
            gamma: parameters.gamma.into_primitive(),
            beta: parameters.beta.into_primitive(),
            mean: parameters.mean.into_primitive(),
            variance: parameters.variance.into_primitive(),
        };
        let run = |keep: bool| flex::functional_frozen(&input, &parameters, &packed, padding, keep);
        match prepared {
            OpsKind::Tracked(prepared) => {
                let (output, winners) = run(true);
                let shape = input.shape();
                let image = [shape[0], shape[2], shape[3], shape[1]];
                prepared.finish((packed, Arc::new(winners), image), output)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(run(false).0),
        }
    }

    fn pooled_conv(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        padding: usize,
        kernels: Kernels,
    ) -> FloatTensor<Self> {
        if kernels == Kernels::Reference {
            return reference::pooled_conv::<Self>(input, weight, bias, padding);
        }
        let prepared = PooledConvBackward.prepare::<C>([input.node(), weight.node(), bias.node()]);
        let [input, weight, bias] = [input, weight, bias].map(FloatTensor::<Self>::into_primitive);
        let block = PooledBlock::new(&input, &weight, &bias, padding);
        match prepared.compute_bound().stateful() {
            OpsKind::Tracked(prepared) => {
                let (output, winners) = block.forward(true);
                prepared.finish((block, Arc::new(winners)), output)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(block.forward(false).0),
        }
    }

    fn decoder_train(
        input: FloatTensor<Self>,
        target: FloatTensor<Self>,
        parameters: DecoderTensors<Self>,
        kernels: Kernels,
    ) -> TrainedTensors<Self> {
        if kernels == Kernels::Reference {
            return reference::decoder_train::<Self>(input, target, parameters);
        }
        let DecoderTensors { first, first_bias, gamma, beta, second, second_bias } = parameters;
        let inputs = [&input, &first, &first_bias, &gamma, &beta, &second, &second_bias];
        let nodes = inputs.map(FloatTensor::<Self>::node);
        let parameters = DecoderTensors {
            first: first.into_primitive(),
            first_bias: first_bias.into_primitive(),
            gamma: gamma.into_primitive(),
            beta: beta.into_primitive(),
            second: second.into_primitive(),
            second_bias: second_bias.into_primitive(),
        };
        let block = DecoderBlock::new(&input.into_primitive(), &parameters);
        let (trained, saved) = block.train(&target.into_primitive());
        let output = match DecoderBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish((block, Arc::new(saved)), trained.output),
            OpsKind::UnTracked(prepared) => prepared.finish(trained.output),
        };
        without_gradient::<C>(output, trained.mean, trained.variance)
    }

    fn decoder_frozen(
        inputs: FloatTensor<Self>,
        target: FloatTensor<Self>,
        parameters: FrozenDecoderTensors<Self>,
        packed: PackedOnce<FrozenDecoder>,
        kernels: Kernels,
    ) -> FloatTensor<Self> {
        if kernels == Kernels::Reference {
            return reference::decoder_frozen::<Self>(&inputs, &target, &parameters);
        }
        let prepared = FrozenDecoderBackward.prepare::<C>([inputs.node()]).compute_bound().stateful();
        let (inputs, target) = (inputs.into_primitive(), target.into_primitive());
        let parameters = FrozenDecoderTensors {
            first: parameters.first.into_primitive(),
            first_bias: parameters.first_bias.into_primitive(),
            gamma: parameters.gamma.into_primitive(),
            beta: parameters.beta.into_primitive(),
            mean: parameters.mean.into_primitive(),
            variance: parameters.variance.into_primitive(),
            second: parameters.second.into_primitive(),
            second_bias: parameters.second_bias.into_primitive(),
        };
        let run = |keep: bool| flex::decoder_frozen(&inputs, &target, &parameters, &packed, keep);
        match prepared {
            OpsKind::Tracked(prepared) => {
                let (losses, errors) = run(true);
                prepared.finish((packed, channels_last(&inputs), Arc::new(errors)), losses)
            }
            OpsKind::UnTracked(prepared) => prepared.finish(run(false).0),
        }
    }

    fn weighted_sum(
        outputs: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        kernels: Kernels,
    ) -> FloatTensor<Self> {
        if kernels == Kernels::Reference {
            return reference::weighted_sum::<Self>(outputs, weights);
        }
        let nodes = [outputs.node(), weights.node()];
        let (outputs, weights) = (channels_last(&outputs.into_primitive()), weights.into_primitive());
        let sum = flex::sum(&outputs, None, &weights);
        match WeightedSumBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish((outputs, weights), sum),
            OpsKind::UnTracked(prepared) => prepared.finish(sum),
        }
    }

    fn weighted_sum_with(
        outputs: FloatTensor<Self>,
        last: FloatTensor<Self>,
        weights: FloatTensor<Self>,
        kernels: Kernels,
    ) -> FloatTensor<Self> {
        if kernels == Kernels::Reference {
            return reference::weighted_sum_with::<Self>(outputs, last, weights);
        }
        let nodes = [outputs.node(), last.node(), weights.node()];
        let outputs = channels_last(&outputs.into_primitive());
        let (last, weights) = (channels_last(&last.into_primitive()), weights.into_primitive());
        let sum = flex::sum(&outputs, Some(&last), &weights);
        match WeightedSumWithBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish((outputs, last, weights), sum),
            OpsKind::UnTracked(prepared) => prepared.finish(sum),
        }
    }
}

/// What a block gives in training, with statistics that carry no gradient.
fn without_gradient<C: CheckpointStrategy>(
    output: FloatTensor<Autodiff<Flex, C>>,
    mean: Primitive,
    variance: Primitive,
) -> TrainedTensors<Autodiff<Flex, C>> {
    let constant = <Autodiff<Flex, C> as AutodiffBackend>::from_inner;
    TrainedTensors { output, mean: constant(mean), variance: constant(variance) }
}

/// The backward pass of [`KernelBackend::functional_train`].
#[derive(Debug)]
struct FunctionalBackward;

impl Backward<Flex, 5> for FunctionalBackward {
    type State = (FunctionalBlock, Arc<functional::Saved>);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = channels_last(&grads.consume::<Flex>(&ops.node));
        let (block, saved) = ops.state;
        let [to_input, rest @ ..] = ops.parents;
        let wanted =
            WantedGradients { input: to_input.is_some(), parameters: rest.iter().any(Option::is_some) };
        let set = InstructionSet::best();
        let found = block.functional().backward(
            set,
            numbers(&block.input),
            block.count,
            &saved,
            numbers(&gradient),
            wanted,
        );
        let ConvShape { height, width, inputs, outputs, kernel, .. } = block.shape;
        if let Some(node) = to_input {
            grads.register::<Flex>(node.id, images(found.input, [block.count, height, width, inputs]));
        }
        let [to_weight, to_bias, to_gamma, to_beta] = rest;
        if let Some(node) = to_weight {
            grads.register::<Flex>(node.id, tensor(found.weight, [outputs, inputs, kernel, kernel]));
        }
        // Batch norm removes every constant, so the gradient of the bias in front of it is zero.
        let bias = vec![0.0; outputs];
        for (node, gradient) in [(to_bias, bias), (to_gamma, found.gamma), (to_beta, found.beta)] {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, vector(gradient));
            }
        }
    }
}

/// The backward pass of [`KernelBackend::functional_frozen`], to the input only.
#[derive(Debug)]
struct FrozenFunctionalBackward;

impl Backward<Flex, 1> for FrozenFunctionalBackward {
    type State = (PackedOnce<FrozenFunctional>, Arc<Scratch>, [usize; 4]);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = channels_last(&grads.consume::<Flex>(&ops.node));
        let (packed, winners, shape) = ops.state;
        if let ([Some(node)], Some(frozen)) = (ops.parents, packed.get()) {
            let into = frozen.backward([shape[1], shape[2]], shape[0], &winners, numbers(&gradient));
            grads.register::<Flex>(node.id, images(into, shape));
        }
    }
}

/// The backward pass of [`KernelBackend::pooled_conv`].
#[derive(Debug)]
struct PooledConvBackward;

impl Backward<Flex, 3> for PooledConvBackward {
    type State = (PooledBlock, Arc<Scratch>);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = channels_last(&grads.consume::<Flex>(&ops.node));
        let (block, winners) = ops.state;
        let [to_input, to_weight, to_bias] = ops.parents;
        let wanted = WantedGradients {
            input: to_input.is_some(),
            parameters: to_weight.is_some() || to_bias.is_some(),
        };
        let set = InstructionSet::best();
        let (input, gradient) = (numbers(&block.input), numbers(&gradient));
        let found = block.conv().backward(set, input, block.count, &winners, gradient, wanted);
        let ConvShape { height, width, inputs, outputs, kernel, .. } = block.shape;
        if let Some(node) = to_input {
            grads.register::<Flex>(node.id, images(found.input, [block.count, height, width, inputs]));
        }
        if let Some(node) = to_weight {
            grads.register::<Flex>(node.id, tensor(found.weight, [outputs, inputs, kernel, kernel]));
        }
        if let Some(node) = to_bias {
            grads.register::<Flex>(node.id, vector(found.bias));
        }
    }
}

/// The backward pass of [`KernelBackend::decoder_train`].
#[derive(Debug)]
struct DecoderBackward;

impl Backward<Flex, 7> for DecoderBackward {
    type State = (DecoderBlock, Arc<decoder::Saved>);

    fn backward(self, ops: Ops<Self::State, 7>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (block, saved) = ops.state;
        let [to_input, rest @ ..] = ops.parents;
        let wanted =
            WantedGradients { input: to_input.is_some(), parameters: rest.iter().any(Option::is_some) };
        let set = InstructionSet::best();
        let found = block.decoder().backward(set, numbers(&block.input), &saved, numbers(&gradient), wanted);
        let shape = block.shape;
        if let Some(node) = to_input {
            let [height, width] = shape.side;
            grads.register::<Flex>(node.id, images(found.input, [block.count, height, width, shape.inputs]));
        }
        let [to_first, to_first_bias, to_gamma, to_beta, to_second, to_second_bias] = rest;
        if let Some(node) = to_first {
            grads.register::<Flex>(node.id, tensor(found.first, [shape.inputs, shape.hidden, 2, 2]));
        }
        if let Some(node) = to_second {
            let sizes = [shape.hidden, shape.outputs, shape.kernel, shape.kernel];
            grads.register::<Flex>(node.id, tensor(found.second, sizes));
        }
        // Batch norm removes every constant, so the gradient of the bias in front of it is zero.
        let first_bias = vec![0.0; shape.hidden];
        let vectors = [
            (to_first_bias, first_bias),
            (to_gamma, found.gamma),
            (to_beta, found.beta),
            (to_second_bias, found.second_bias),
        ];
        for (node, gradient) in vectors {
            if let Some(node) = node {
                grads.register::<Flex>(node.id, vector(gradient));
            }
        }
    }
}

/// The backward pass of [`KernelBackend::decoder_frozen`], to the inputs only.
#[derive(Debug)]
struct FrozenDecoderBackward;

impl Backward<Flex, 1> for FrozenDecoderBackward {
    type State = (PackedOnce<FrozenDecoder>, Primitive, Arc<Scratch>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (packed, inputs, errors) = ops.state;
        if let ([Some(node)], Some(frozen)) = (ops.parents, packed.get()) {
            let shape = inputs.shape();
            let into = frozen.backward([shape[2], shape[3]], numbers(&inputs), &errors, numbers(&gradient));
            let into = module_images(into, [shape[0], shape[1], shape[2], shape[3], shape[4]]);
            grads.register::<Flex>(node.id, into);
        }
    }
}

/// The backward pass of [`KernelBackend::weighted_sum`].
#[derive(Debug)]
struct WeightedSumBackward;

impl Backward<Flex, 2> for WeightedSumBackward {
    type State = (Primitive, Primitive);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = channels_last(&grads.consume::<Flex>(&ops.node));
        let (stack, weights) = ops.state;
        let weights = weights.to_contiguous();
        let (shape, count) = (stack.shape(), stack.shape()[1]);
        let [to_stack, to_weights] = ops.parents;
        if let Some(node) = to_stack {
            let into = weighted_sum::outputs_gradient(
                InstructionSet::best(),
                numbers(&weights),
                numbers(&gradient),
                count,
            );
            let into = module_images(into, [shape[0], shape[1], shape[2], shape[3], shape[4]]);
            grads.register::<Flex>(node.id, into);
        }
        if let Some(node) = to_weights {
            let into =
                weighted_sum::weights_gradient(&flex::outputs(&stack, None), numbers(&gradient), count);
            grads.register::<Flex>(node.id, tensor(into, [shape[0], count]));
        }
    }
}

/// The backward pass of [`KernelBackend::weighted_sum_with`].
#[derive(Debug)]
struct WeightedSumWithBackward;

impl Backward<Flex, 3> for WeightedSumWithBackward {
    type State = (Primitive, Primitive, Primitive);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = channels_last(&grads.consume::<Flex>(&ops.node));
        let (stack, last, weights) = ops.state;
        let weights = weights.to_contiguous();
        let shape = stack.shape();
        let (modules, count) = (shape[0], shape[1]);
        let (of_stack, of_last) = numbers(&weights).split_at(modules * count);
        let set = InstructionSet::best();
        let [to_stack, to_last, to_weights] = ops.parents;
        if let Some(node) = to_stack {
            let into = weighted_sum::outputs_gradient(set, of_stack, numbers(&gradient), count);
            let into = module_images(into, [modules, count, shape[2], shape[3], shape[4]]);
            grads.register::<Flex>(node.id, into);
        }
        if let Some(node) = to_last {
            let into = weighted_sum::outputs_gradient(set, of_last, numbers(&gradient), count);
            grads.register::<Flex>(node.id, images(into, [count, shape[2], shape[3], shape[4]]));
        }
        if let Some(node) = to_weights {
            let outputs = flex::outputs(&stack, Some(&last));
            let into = weighted_sum::weights_gradient(&outputs, numbers(&gradient), count);
            grads.register::<Flex>(node.id, tensor(into, [modules + 1, count]));
        }
    }
}
