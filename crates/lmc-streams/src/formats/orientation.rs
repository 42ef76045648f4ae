//! Turns a picture upright, as its EXIF orientation says.
//!
//! Cameras store pixels as the sensor reads them and note how the camera was held. The eight notes are the
//! eight ways in which a rectangle can be laid over its own outline or over that of its transpose.

use image::metadata::Orientation;

use crate::picture::Picture;

/// The picture as its orientation says that it is to be looked at.
pub(super) fn upright(picture: Picture, orientation: Orientation) -> Picture {
    let (right, bottom) = (picture.width.saturating_sub(1), picture.height.saturating_sub(1));
    // From the (column, row) of the result to those of the picture as it is stored.
    match orientation {
        Orientation::NoTransforms => picture,
        Orientation::FlipHorizontal => rearranged(&picture, false, |x, y| (right - x, y)),
        Orientation::Rotate180 => rearranged(&picture, false, |x, y| (right - x, bottom - y)),
        Orientation::FlipVertical => rearranged(&picture, false, |x, y| (x, bottom - y)),
        Orientation::Rotate90FlipH => rearranged(&picture, true, |x, y| (y, x)),
        Orientation::Rotate90 => rearranged(&picture, true, |x, y| (y, bottom - x)),
        Orientation::Rotate270FlipH => rearranged(&picture, true, |x, y| (right - y, bottom - x)),
        Orientation::Rotate270 => rearranged(&picture, true, |x, y| (right - y, x)),
    }
}

/// A new picture whose pixel (column, row) is the stored one at `from(column, row)`; `swapped` exchanges width
/// and height.
fn rearranged(picture: &Picture, swapped: bool, from: impl Fn(usize, usize) -> (usize, usize)) -> Picture {
    let Picture { width, height, channels, .. } = *picture;
    let (new_width, new_height) = if swapped { (height, width) } else { (width, height) };
    let mut pixels = Vec::with_capacity(picture.pixels.len());
    for row in 0..new_height {
        for column in 0..new_width {
            let (x, y) = from(column, row);
            let at = (y * width + x) * channels;
            pixels.extend_from_slice(&picture.pixels[at..at + channels]);
        }
    }
    Picture { width: new_width, height: new_height, channels, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_orientations_by_hand() {
        // Stored as 1 2 3 / 4 5 6. EXIF says where the stored first row and first column belong: 1 top and left,
        // 2 top and right, 3 bottom and right, 4 bottom and left, 5 left and top, 6 right and top, 7 right and
        // bottom, 8 left and bottom.
        let stored = Picture { width: 3, height: 2, channels: 1, pixels: vec![1, 2, 3, 4, 5, 6] };
        let expected: [(usize, [u8; 6]); 8] = [
            (3, [1, 2, 3, 4, 5, 6]),
            (3, [3, 2, 1, 6, 5, 4]),
            (3, [6, 5, 4, 3, 2, 1]),
            (3, [4, 5, 6, 1, 2, 3]),
            (2, [1, 4, 2, 5, 3, 6]),
            (2, [4, 1, 5, 2, 6, 3]),
            (2, [6, 3, 5, 2, 4, 1]),
            (2, [3, 6, 2, 5, 1, 4]),
        ];
        for (exif, (width, pixels)) in (1..).zip(expected) {
            let turned = upright(stored.clone(), Orientation::from_exif(exif).unwrap());
            assert_eq!((turned.width, turned.height), (width, 6 / width), "orientation {exif}");
            assert_eq!(turned.pixels, pixels, "orientation {exif}");
        }
    }

    #[test]
    fn the_channels_of_a_pixel_stay_together() {
        let stored = Picture { width: 2, height: 1, channels: 3, pixels: vec![1, 2, 3, 4, 5, 6] };
        let turned = upright(stored, Orientation::Rotate90);
        assert_eq!((turned.width, turned.height, turned.pixels), (1, 2, vec![1, 2, 3, 4, 5, 6]));
    }
}
