//! HAT: weights that earlier tasks use do not move.

use lmc::internals::tensors::below;

use crate::{learn, model, small_with, task, unmoved};

#[test]
fn hat_does_not_move_what_earlier_tasks_use() {
    let mut hat = small_with("hat", "largest_scale = 400.0\nregulariser = 0.1");
    learn(&mut *hat, &task("digits"));
    let (before, state) = (model(&*hat), hat.state().unwrap());
    let used = |layer: usize| {
        let name = format!("used{layer}");
        state.tensors.iter().find(|tensor| tensor.name == name).unwrap().values.clone()
    };
    learn(&mut *hat, &task("textures"));
    let after = model(&*hat);
    // Mask, batch norms and head of the earlier task are its own.
    let own = below("model.task0", &state.tensors);
    assert!(own.len() > 8 && unmoved(&own, &below("model.task0", &hat.state().unwrap().tensors)));
    for layer in 0..2 {
        let outputs = used(layer);
        let inputs = if layer == 0 { vec![1.0; 3] } else { used(layer - 1) };
        let name = format!("layer{layer}.conv.weight");
        let (old, new) = (&before[&name].values, &after[&name].values);
        let (mut kept, mut moved) = (0, 0);
        for (at, (old, new)) in old.iter().zip(new).enumerate() {
            let (output, input) = (at / (9 * inputs.len()), at / 9 % inputs.len());
            if outputs[output].min(inputs[input]) == 1.0 {
                assert_eq!(old.to_bits(), new.to_bits(), "{name} {at}");
                kept += 1;
            } else {
                moved += usize::from(old != new);
            }
        }
        assert!(kept > 0 && moved > 0, "{name}: {kept} kept, {moved} moved; used {outputs:?}");
    }
}
