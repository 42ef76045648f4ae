//! NCM and SLDA: means of classes in frozen features.

use lmc::Protocol;
use lmc_streams::Task;

use crate::{classify, learn, model, small, task, unmoved};

/// The order in which images come does not matter, up to rounding; the features stay those of the first task.
#[test]
fn class_means_do_not_depend_on_the_order() {
    let (first, second) = (task("digits"), task("textures"));
    let backwards: Vec<usize> = (0..second.train.len()).rev().collect();
    let turned = Task { train: second.train.part(&backwards), ..second.clone() };
    let means = |second: &Task| {
        let mut ncm = small("ncm");
        learn(&mut *ncm, &first);
        let before = model(&*ncm);
        learn(&mut *ncm, second);
        assert!(unmoved(&before, &model(&*ncm)));
        let state = ncm.state().unwrap();
        let means = state.tensors.iter().find(|tensor| tensor.name == "means").unwrap().values.clone();
        (means, classify(&*ncm, second, Protocol::Single, 1))
    };
    let ((forth, found), (back, found_back)) = (means(&second), means(&turned));
    assert_eq!(found, found_back);
    assert!(forth.iter().any(|&mean| mean > 0.0));
    for (a, b) in forth.iter().zip(&back) {
        assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{a} {b}");
    }
}
