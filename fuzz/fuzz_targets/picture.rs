//! A picture of any format. Its decoders are other people's and may panic: `lmc` catches that, so only what escapes, a
//! picture that contradicts itself, and memory beyond the limit count here.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lmc::{Picture, Preparation};

fuzz_target!(
    init: std::panic::set_hook(Box::new(|_| ())),
    |bytes: &[u8]| {
        let Ok(picture) = Picture::decode(bytes) else { return };
        let Picture { width, height, channels, pixels } = &picture;
        assert!(matches!(channels, 1 | 3) && pixels.len() == width * height * channels);
        let preparation = Preparation { size: 16, ..Preparation::default() };
        // Resizing is linear in the pixels: what is large is only decoded.
        if *width > 0 && *height > 0 && pixels.len() <= 1 << 20 {
            assert!(preparation.apply(picture).pixels.len() == 16 * 16 * 3);
        }
    }
);
