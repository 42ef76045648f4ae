//! IDX files: MNIST and Fashion-MNIST, packed with gzip or not (specification §3.1).
//!
//! An IDX file is a magic number (two zeros, the element type, the number of dimensions), the dimensions
//! as big-endian 32-bit numbers, and the elements. Images are `08 03`, labels `08 01`.

use std::io::{self, BufReader, Read};
use std::path::Path;

use super::raw::{Collector, PixelLayout, at_end, read_exactly, unpack, unreadable};
use crate::dataset::{ReadOptions, Split};
use crate::error::{Error, Result};
use crate::image_set::ImageSet;
use crate::regular_file::open_file;

/// Reads the image file and the label file of one split.
pub fn read(
    images: &Path,
    labels: &Path,
    split: Split,
    classes: usize,
    options: &ReadOptions<'_>,
) -> Result<ImageSet> {
    let open = |path| open_file(path).map(BufReader::new);
    read_from((open(images)?, images), (open(labels)?, labels), split, classes, options)
}

/// Reads the image bytes and the label bytes of one split; the paths are for messages.
pub fn read_from(
    images: (impl Read, &Path),
    labels: (impl Read, &Path),
    split: Split,
    classes: usize,
    options: &ReadOptions<'_>,
) -> Result<ImageSet> {
    let (image_path, label_path) = (images.1, labels.1);
    let mut images = unpack(images.0).map_err(|e| unreadable(image_path, "start", e, AGAIN))?;
    let mut labels = unpack(labels.0).map_err(|e| unreadable(label_path, "start", e, AGAIN))?;
    let [count, height, width] = read_header(&mut images, image_path, "images")?;
    let [label_count] = read_header(&mut labels, label_path, "labels")?;
    if count != label_count {
        return Err(Error::bad(
            image_path,
            format!("{count} images, but {label_count} labels in {}", label_path.display()),
            "give the image and the label file of the same split",
        ));
    }
    let layout = PixelLayout::interleaved(height, width, 1).filter(|_| count > 0).ok_or_else(|| {
        Error::bad(image_path, format!("holds {count} images of {height} x {width} pixels"), AGAIN)
    })?;
    let labels = read_labels(&mut labels, label_path, count, classes)?;
    let labels = labels.into_iter().map(u32::from);
    let mut collector = Collector::new(image_path, split, classes, labels, layout, options);
    let failed = |row, error| unreadable(image_path, &format!("image {row}"), error, AGAIN);
    collector.add_rows(&mut images, 0..count, 0, failed)?;
    expect_end(&mut images, image_path, "image", count)?;
    collector.finish()
}

/// How many images or labels a file says it holds; its content is not looked at.
pub fn count(path: &Path) -> Option<u64> {
    let mut reader = unpack(open_file(path).ok()?).ok()?;
    let mut header = [0; 8];
    reader.read_exact(&mut header).ok()?;
    let [0, 0, 8, 1 | 3, a, b, c, d] = header else { return None };
    Some(u32::from_be_bytes([a, b, c, d]).into())
}

const AGAIN: &str = "download the file again";

fn read_header<const RANK: usize>(reader: &mut dyn Read, path: &Path, what: &str) -> Result<[usize; RANK]> {
    let failed = |error| unreadable(path, "header", error, AGAIN);
    let mut magic = [0; 4];
    reader.read_exact(&mut magic).map_err(failed)?;
    let cure = match magic {
        [0, 0, 8, rank] if usize::from(rank) == RANK => {
            let mut dimensions = [0; RANK];
            for dimension in &mut dimensions {
                let mut bytes = [0; 4];
                reader.read_exact(&mut bytes).map_err(failed)?;
                *dimension = u32::from_be_bytes(bytes) as usize;
            }
            return Ok(dimensions);
        }
        [0, 0, 8, 1 | 3] => "give the image file first and the label file second",
        _ => "give the original IDX files, packed with gzip or not",
    };
    let [a, b, c, d] = magic;
    let problem = format!(
        "not an IDX file of {what}: it starts with {a:02x} {b:02x} {c:02x} {d:02x}, not 00 00 08 {RANK:02x}"
    );
    Err(Error::bad(path, problem, cure))
}

fn read_labels(reader: &mut dyn Read, path: &Path, count: usize, classes: usize) -> Result<Vec<u8>> {
    let labels = read_exactly(reader, count).map_err(|error| unreadable(path, "labels", error, AGAIN))?;
    expect_end(reader, path, "label", count)?;
    match labels.iter().position(|&label| usize::from(label) >= classes) {
        None => Ok(labels),
        Some(row) => {
            let label = labels.get(row).copied().unwrap_or_default();
            Err(Error::bad_at(
                path,
                format!("row {row}"),
                format!(
                    "label {label}, but there are {classes} classes (0 to {})",
                    classes.saturating_sub(1)
                ),
                "correct the label or give all class names",
            ))
        }
    }
}

fn expect_end(reader: &mut dyn Read, path: &Path, what: &str, count: usize) -> Result<()> {
    let ended: io::Result<bool> = at_end(reader);
    if ended.map_err(|error| unreadable(path, "end", error, AGAIN))? {
        return Ok(());
    }
    Err(Error::bad(path, format!("more bytes than its {count} {what}s need"), AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::Prepare;

    #[test]
    fn two_images_by_hand() {
        let images = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2][..], &[5, 6, 7, 8]].concat();
        let labels = [0, 0, 8, 1, 0, 0, 0, 2, 1, 0];
        let (image_path, label_path) = (Path::new("images"), Path::new("labels"));
        let read = |labels: &[u8], classes| {
            let options = ReadOptions::all(Prepare::AS_IS);
            read_from((&images[..], image_path), (labels, label_path), Split::Train, classes, &options)
        };
        let set = read(&labels, 2).unwrap();
        assert_eq!((set.image(0), set.image(1)), (&[5, 6][..], &[7, 8][..]));
        assert_eq!((set.label(0), set.label(1)), (1, 0));
        assert_eq!((set.shape().height, set.shape().width), (1, 2));
        assert_eq!(
            read(&labels, 1).unwrap_err().to_string(),
            "labels, row 0: label 1, but there are 1 classes (0 to 0); \
             correct the label or give all class names"
        );
    }
}
