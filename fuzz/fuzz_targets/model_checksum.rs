//! A forged model file: mutated, with a checksum that fits. If it loads, it predicts something sane or says why not.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use lmc::{Device, Model, Picture};
use lmc_fuzz::{fitted, is_small};

/// A file that lmc wrote: there is nothing to mend, or the checksum here is not the one of lmc.
const WHOLE: &[u8] = include_bytes!("../seed/model_checksum/two_tasks.lmc");

fuzz_target!(
    init: assert!(fitted(WHOLE).as_deref() == Some(WHOLE), "the checksum of lmc is computed in another way now"),
    |bytes: &[u8]| {
        let Some(file) = fitted(bytes) else { return };
        let Ok(model) = Model::from_bytes(&file, Path::new("fuzz"), &Device::flex()) else { return };
        if !is_small(&model) {
            return;
        }
        let Ok(found) = model.predict(&Picture::filled(16, 16, [10, 200, 90])) else { return };
        assert!((0.0..=1.0).contains(&found.probability), "probability {}", found.probability);
        for weight in found.module_weights.iter().flatten() {
            assert!((-1e-6..=1.0 + 1e-6).contains(weight), "weight {weight}");
        }
        let saved = model.to_bytes(Path::new("fuzz")).expect("what was loaded can be saved");
        Model::from_bytes(&saved, Path::new("fuzz"), &Device::flex()).expect("what was saved can be loaded");
    }
);
