//! Small files of every format, written by hand.

use std::io::{Cursor, Read, Write};

use flate2::Compression;
use flate2::read::{GzEncoder, ZlibEncoder};
use proptest::collection::vec;
use proptest::prelude::*;
use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

/// Images of one size, planar, with labels.
#[derive(Clone, Debug)]
pub struct Images {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    pub labels: Vec<u8>,
    pub pixels: Vec<Vec<u8>>,
}

impl Images {
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// The element at (image, channel, row, column).
    pub fn at(&self, image: usize, channel: usize, row: usize, column: usize) -> u8 {
        self.pixels[image][(channel * self.height + row) * self.width + column]
    }
}

/// Some images with labels below `classes`.
pub fn images(channels: usize, classes: u8) -> impl Strategy<Value = Images> {
    (1..6_usize, 1..6_usize, 1..40_usize)
        .prop_flat_map(move |(height, width, count)| sized_images(channels, height, width, classes, count))
}

/// So many images of this size.
pub fn sized_images(
    channels: usize,
    height: usize,
    width: usize,
    classes: u8,
    count: usize,
) -> impl Strategy<Value = Images> {
    let size = channels * height * width;
    // Pixels of one image repeat a short pattern: enough to distinguish images and places, and quick.
    let pattern = vec(any::<u8>(), size.min(97));
    let pixels =
        pattern.prop_map(move |pattern| pattern.iter().copied().cycle().take(size).collect::<Vec<u8>>());
    (vec(0..classes, count), vec(pixels, count)).prop_map(move |(labels, pixels)| Images {
        channels,
        height,
        width,
        labels,
        pixels,
    })
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    GzEncoder::new(bytes, Compression::fast()).read_to_end(&mut packed).unwrap();
    packed
}

pub fn idx_images(images: &Images) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, 3];
    for dimension in [images.len(), images.height, images.width] {
        bytes.extend((dimension as u32).to_be_bytes());
    }
    bytes.extend(images.pixels.iter().flatten());
    bytes
}

pub fn idx_labels(images: &Images) -> Vec<u8> {
    [&[0, 0, 8, 1][..], &(images.len() as u32).to_be_bytes(), &images.labels].concat()
}

/// Records of CIFAR-10 (no coarse label) or CIFAR-100.
pub fn cifar_records(images: &Images, coarse: Option<u8>) -> Vec<u8> {
    let records = images.labels.iter().zip(&images.pixels);
    records.flat_map(|(&label, pixels)| coarse.into_iter().chain([label]).chain(pixels.clone())).collect()
}

pub fn cifar_names(classes: usize) -> Vec<u8> {
    (0..classes).map(|class| format!("class {class}\n")).collect::<String>().into_bytes()
}

/// An archive of files in this order.
pub fn tar(folder: &str, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("{folder}/{name}"), &content[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

/// An array file of NumPy.
pub fn npy(descr: &str, fortran: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    let shape: String = shape.iter().map(|dimension| format!("{dimension}, ")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({shape}), }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    [&b"\x93NUMPY\x01\x00"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
}

/// A zip file of arrays.
pub fn npz(arrays: &[(&str, Vec<u8>)], packed: bool) -> Vec<u8> {
    let method = if packed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, array) in arrays {
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(format!("{name}.npy"), options).unwrap();
        writer.write_all(array).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// How a MATLAB file is written.
#[derive(Clone, Copy, Debug)]
pub struct MatStyle {
    pub big_endian: bool,
    pub packed: bool,
    /// Type of `y` as it is stored: 1 to 7, 9, 12, 13.
    pub label_type: u32,
    pub labels_first: bool,
}

pub const PLAIN: MatStyle = MatStyle { big_endian: false, packed: false, label_type: 2, labels_first: false };

/// A file as SVHN's, with labels 1 to 10.
pub fn mat(images: &Images, style: MatStyle) -> Vec<u8> {
    let mut x = Vec::new();
    for image in 0..images.len() {
        for channel in 0..images.channels {
            for column in 0..images.width {
                x.extend((0..images.height).map(|row| images.at(image, channel, row, column)));
            }
        }
    }
    let dimensions = [images.height, images.width, images.channels, images.len()];
    let x = mat_matrix("X", 9, 2, &dimensions, &x, style);
    let labels: Vec<u8> = images.labels.iter().map(|&label| if label == 0 { 10 } else { label }).collect();
    let y: Vec<u8> = labels.iter().flat_map(|&label| mat_number(label, style)).collect();
    let y = mat_matrix("y", 6, style.label_type, &[images.len(), 1], &y, style);
    let variables = if style.labels_first { [y, x] } else { [x, y] };
    mat_file(&variables.concat(), style.big_endian)
}

pub fn mat_file(content: &[u8], big_endian: bool) -> Vec<u8> {
    let mut file = b"MATLAB 5.0 MAT-file, written by a test".to_vec();
    file.resize(124, b' ');
    file.extend(if big_endian { [1, 0, b'M', b'I'] } else { [0, 1, b'I', b'M'] });
    file.extend(content);
    file
}

pub fn mat_matrix(
    name: &str,
    class: u32,
    kind: u32,
    dimensions: &[usize],
    data: &[u8],
    style: MatStyle,
) -> Vec<u8> {
    let word = |number: u32| mat_word(number, style.big_endian);
    let dimensions: Vec<u8> = dimensions.iter().flat_map(|&dimension| word(dimension as u32)).collect();
    let content = [
        mat_element(6, &[word(class), word(0)].concat(), style),
        mat_element(5, &dimensions, style),
        mat_element(1, name.as_bytes(), style),
        mat_element(kind, data, style),
    ]
    .concat();
    let matrix = [&word(14)[..], &word(content.len() as u32), &content].concat();
    if !style.packed {
        return matrix;
    }
    let mut packed = Vec::new();
    ZlibEncoder::new(&matrix[..], Compression::fast()).read_to_end(&mut packed).unwrap();
    [&word(15)[..], &word(packed.len() as u32), &packed].concat()
}

fn mat_element(kind: u32, data: &[u8], style: MatStyle) -> Vec<u8> {
    let word = |number: u32| mat_word(number, style.big_endian);
    let mut element = if (1..=4).contains(&data.len()) {
        [&word((data.len() as u32) << 16 | kind)[..], data].concat()
    } else {
        [&word(kind)[..], &word(data.len() as u32), data].concat()
    };
    element.resize(element.len().next_multiple_of(8), 0);
    element
}

fn mat_word(number: u32, big_endian: bool) -> [u8; 4] {
    if big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
}

fn mat_number(number: u8, style: MatStyle) -> Vec<u8> {
    let mut bytes = match style.label_type {
        1 | 2 => vec![number],
        3 | 4 => u16::from(number).to_le_bytes().to_vec(),
        5 | 6 => u32::from(number).to_le_bytes().to_vec(),
        7 => f32::from(number).to_le_bytes().to_vec(),
        9 => f64::from(number).to_le_bytes().to_vec(),
        _ => u64::from(number).to_le_bytes().to_vec(),
    };
    if style.big_endian {
        bytes.reverse();
    }
    bytes
}
