//! Raw images in file order become a prepared set: what the readers of number arrays share (specification §3.1).
//!
//! All of them know every label before the first image. So the ranks, and which images are kept, are
//! settled first; then the images stream by, and only those kept are ever held.

use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use rayon::prelude::*;

use crate::dataset::{ReadOptions, Split};
use crate::error::{Error, Result};
use crate::image_set::{ImageSet, ImageShape};
use crate::picture::Picture;
use crate::prepare::Prepare;

/// Prepares raw images chunk by chunk and adds them to a set.
pub(super) struct Collector<'a> {
    path: &'a Path,
    prepare: Prepare,
    layout: PixelLayout,
    wanted: Vec<WantedRow>,
    added: usize,
    waiting: Vec<Vec<u8>>,
    chunk: usize, // images
    room: usize,  // images for which the set has memory reserved
    set: ImageSet,
}

struct WantedRow {
    row: u32,
    label: u32,
    rank: u32,
}

impl<'a> Collector<'a> {
    /// Settles which rows of a split are kept. Every label must be less than `classes`.
    pub fn new(
        path: &'a Path,
        split: Split,
        classes: usize,
        labels: impl IntoIterator<Item = u32>,
        layout: PixelLayout,
        options: &ReadOptions<'_>,
    ) -> Self {
        let mut set = ImageSet::new(classes);
        let mut wanted = Vec::new();
        for (label, row) in labels.into_iter().zip(0..u32::MAX) {
            let rank = set.count(label);
            if (options.keep)(split, label, rank) {
                wanted.push(WantedRow { row, label, rank });
            }
        }
        wanted.shrink_to_fit();
        let (prepare, waiting) = (options.prepare, Vec::new());
        Self { path, prepare, layout, wanted, added: 0, waiting, chunk: FIRST_CHUNK, room: 0, set }
    }

    /// The row of the next image to add; what lies before it can be skipped.
    pub fn next_row(&self) -> Option<usize> {
        self.wanted.get(self.added).map(|wanted| wanted.row as usize)
    }

    /// Adds the raw image of [`Self::next_row`].
    pub fn add(&mut self, raw: Vec<u8>) -> Result<()> {
        self.waiting.push(raw);
        self.added += 1;
        if self.waiting.len() < self.chunk { Ok(()) } else { self.prepare_waiting() }
    }

    /// Adds those of these rows that are wanted; in each record `before` other bytes precede the image.
    pub fn add_rows(
        &mut self,
        reader: &mut dyn Read,
        rows: std::ops::Range<usize>,
        before: usize,
        failed: impl Fn(usize, io::Error) -> Error,
    ) -> Result<()> {
        let mut at = rows.start;
        let record = (self.layout.bytes() as u64).saturating_add(before as u64);
        while let Some(row) = self.next_row().filter(|&row| row < rows.end) {
            let over = record.saturating_mul(row.saturating_sub(at) as u64).saturating_add(before as u64);
            skip(reader, over).map_err(|error| failed(row, error))?;
            let raw = read_exactly(reader, self.layout.bytes()).map_err(|error| failed(row, error))?;
            self.add(raw)?;
            at = row + 1;
        }
        let rest = record.saturating_mul(rows.end.saturating_sub(at) as u64);
        skip(reader, rest).map_err(|error| failed(rows.end.saturating_sub(1), error))
    }

    /// Prepares what is left and gives the set.
    pub fn finish(mut self) -> Result<ImageSet> {
        self.prepare_waiting()?;
        self.set.shrink();
        Ok(self.set)
    }

    fn prepare_waiting(&mut self) -> Result<()> {
        let (prepare, layout) = (self.prepare, self.layout);
        let pictures: Vec<Picture> = std::mem::take(&mut self.waiting)
            .into_par_iter()
            .map(|raw| prepare.apply(layout.picture(raw)))
            .collect();
        let Some(first) = pictures.first() else { return Ok(()) };
        let shape = ImageShape { channels: first.channels, height: first.height, width: first.width };
        let size = shape.bytes().max(layout.bytes()).max(1);
        self.chunk = (CHUNK_BYTES / size).clamp(FIRST_CHUNK, LONGEST_CHUNK);
        for picture in &pictures {
            if self.room == 0 {
                let left = self.wanted.len().saturating_sub(self.set.len());
                self.room = left.min(RESERVE_BYTES / shape.bytes().max(1)).max(1);
                self.set.reserve(self.room, shape);
            }
            let Some(wanted) = self.wanted.get(self.set.len()) else { break };
            // All images of an array have one shape, so no row need be named.
            self.set.push(picture, wanted.label, wanted.rank, (self.path, "every image"))?;
            self.room -= 1;
        }
        Ok(())
    }
}

/// Enough to learn the size of a prepared image; later chunks are cut by that.
const FIRST_CHUNK: usize = 16;
const LONGEST_CHUNK: usize = 1024;
const CHUNK_BYTES: usize = 4 << 20;
/// Memory is asked for once the first images are really there, and never much more than that ahead: a
/// header may lie. All sets of the paper fit, so they are reserved exactly.
const RESERVE_BYTES: usize = 256 << 20;

/// How the bytes of one raw image lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PixelLayout {
    shape: ImageShape,
    row: usize,     // distance between two neighbours in a column
    column: usize,  // and in a row
    channel: usize, // and between the channels of a pixel
}

impl PixelLayout {
    /// The layout `[row, column, channel]`; `None` for an image without pixels or beyond all memory.
    pub fn interleaved(height: usize, width: usize, channels: usize) -> Option<Self> {
        Self::checked(height, width, channels, |_| (width * channels, channels, 1))
    }

    /// The layout `[channel, row, column]`.
    pub fn planar(height: usize, width: usize, channels: usize) -> Option<Self> {
        Self::checked(height, width, channels, |area| (width, 1, area))
    }

    /// The layout `[channel, column, row]`, MATLAB's and Fortran's order.
    pub fn column_major(height: usize, width: usize, channels: usize) -> Option<Self> {
        Self::checked(height, width, channels, |area| (1, height, area))
    }

    /// The layout `[column, row, channel]`, Fortran's order of `[channel, row, column]`.
    #[cfg(any(test, feature = "archives"))]
    pub fn column_major_interleaved(height: usize, width: usize, channels: usize) -> Option<Self> {
        Self::checked(height, width, channels, |_| (channels, channels * height, 1))
    }

    /// Whether images of both layouts have one shape.
    #[cfg(feature = "archives")]
    pub fn same_size(&self, other: &Self) -> bool {
        self.shape == other.shape
    }

    /// Number of bytes of one image.
    pub fn bytes(&self) -> usize {
        self.shape.bytes()
    }

    fn checked(
        height: usize,
        width: usize,
        channels: usize,
        strides: impl Fn(usize) -> (usize, usize, usize),
    ) -> Option<Self> {
        let area = height.checked_mul(width)?;
        let bytes = area.checked_mul(channels)?;
        if bytes == 0 || bytes > isize::MAX as usize {
            return None;
        }
        let (row, column, channel) = strides(area);
        Some(Self { shape: ImageShape { channels, height, width }, row, column, channel })
    }

    fn picture(&self, raw: Vec<u8>) -> Picture {
        let ImageShape { channels, height, width } = self.shape;
        if Self::interleaved(height, width, channels) == Some(*self) {
            return Picture { width, height, channels, pixels: raw };
        }
        let mut pixels = Vec::with_capacity(raw.len());
        for row in 0..height {
            for column in 0..width {
                let at = row * self.row + column * self.column;
                pixels.extend((0..channels).map(|channel| raw[at + channel * self.channel]));
            }
        }
        Picture { width, height, channels, pixels }
    }
}

/// Unpacks gzip if the first bytes say so, whatever the file is called.
pub(super) fn unpack<'a>(mut reader: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let mut start = Vec::new();
    reader.by_ref().take(2).read_to_end(&mut start)?;
    let packed = start == [0x1f, 0x8b];
    let whole = Cursor::new(start).chain(reader);
    Ok(if packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) })
}

/// Reads so many bytes; memory grows with what is there, not with what is asked for.
pub(super) fn read_exactly(reader: &mut dyn Read, bytes: usize) -> io::Result<Vec<u8>> {
    let mut raw = Vec::with_capacity(bytes.min(1 << 20));
    let got = reader.take(bytes as u64).read_to_end(&mut raw)?;
    if got < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(raw) }
}

/// Passes over so many bytes, all of which must be there.
pub(super) fn skip(reader: &mut dyn Read, bytes: u64) -> io::Result<()> {
    let over = io::copy(&mut reader.take(bytes), &mut io::sink())?;
    if over < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Whether nothing is left; the last read is also what makes a decoder verify its checksum.
pub(super) fn at_end(reader: &mut dyn Read) -> io::Result<bool> {
    Ok(reader.take(1).read_to_end(&mut Vec::new())? == 0)
}

/// Explains a failed read in words.
pub(super) fn unreadable(path: &Path, row: &str, error: io::Error, cure: &str) -> Error {
    if error.raw_os_error().is_some() {
        return Error::io("read", path)(error);
    }
    let problem = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file ends in the middle of it".to_owned(),
        _ => format!("the data is damaged ({error})"),
    };
    Error::bad_at(path, row, problem, cure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_by_hand() {
        // Two rows of three: 1 2 3 / 4 5 6, then +10 in the second and +20 in the third channel.
        let expected = [1, 11, 21, 2, 12, 22, 3, 13, 23, 4, 14, 24, 5, 15, 25, 6, 16, 26];
        let planar = [1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26];
        let columns = [1, 4, 2, 5, 3, 6, 11, 14, 12, 15, 13, 16, 21, 24, 22, 25, 23, 26];
        let picture = |layout: Option<PixelLayout>, raw: &[u8]| layout.unwrap().picture(raw.to_vec()).pixels;
        assert_eq!(picture(PixelLayout::interleaved(2, 3, 3), &expected), expected);
        assert_eq!(picture(PixelLayout::planar(2, 3, 3), &planar), expected);
        assert_eq!(picture(PixelLayout::column_major(2, 3, 3), &columns), expected);
        let columns = [1, 11, 21, 4, 14, 24, 2, 12, 22, 5, 15, 25, 3, 13, 23, 6, 16, 26];
        assert_eq!(picture(PixelLayout::column_major_interleaved(2, 3, 3), &columns), expected);
    }

    #[test]
    fn impossible_layouts_are_refused() {
        assert_eq!(PixelLayout::planar(0, 3, 3), None);
        assert_eq!(PixelLayout::planar(usize::MAX, usize::MAX, 3), None);
        assert_eq!(PixelLayout::interleaved(1 << 62, 1, 3), None);
    }

    #[test]
    fn only_wanted_rows_are_read_and_ranks_count_all() {
        let options = ReadOptions::keeping(Prepare::AS_IS, &|_, label, rank| label == 1 || rank == 1);
        let layout = PixelLayout::interleaved(1, 1, 1).unwrap();
        let labels = [1, 0, 0, 1, 0];
        let mut collector = Collector::new(Path::new("x"), Split::Train, 2, labels, layout, &options);
        // Each record: one byte before, then the pixel.
        let mut bytes: &[u8] = &[9, 10, 9, 11, 9, 12, 9, 13, 9, 14, 77];
        collector.add_rows(&mut bytes, 0..5, 1, |_, _| unreachable!()).unwrap();
        assert_eq!(bytes, [77]);
        let set = collector.finish().unwrap();
        let rows: Vec<_> = (0..set.len()).map(|i| (set.image(i)[0], set.label(i), set.rank(i))).collect();
        assert_eq!(rows, [(10, 1, 0), (12, 0, 1), (13, 1, 1)]);
        assert_eq!(set.source_counts(), [3, 2]);
    }

    #[test]
    fn chunks_keep_the_order() {
        let layout = PixelLayout::interleaved(1, 1, 1).unwrap();
        let options = ReadOptions::all(Prepare::AS_IS);
        let labels = vec![0; 5000];
        let mut collector = Collector::new(Path::new("x"), Split::Train, 1, labels, layout, &options);
        let bytes: Vec<u8> = (0..5000_u32).map(|row| (row % 251) as u8).collect();
        collector.add_rows(&mut &bytes[..], 0..5000, 0, |_, _| unreachable!()).unwrap();
        let set = collector.finish().unwrap();
        assert!((0..5000).all(|row| set.image(row) == [bytes[row]] && set.rank(row) == row as u32));
    }

    #[test]
    fn gzip_is_known_by_its_first_bytes() {
        let mut packer = flate2::read::GzEncoder::new(&b"abc"[..], flate2::Compression::fast());
        let mut packed = Vec::new();
        packer.read_to_end(&mut packed).unwrap();
        for bytes in [&packed[..], b"abc"] {
            let mut text = String::new();
            unpack(bytes).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "abc");
        }
        let mut one = Vec::new();
        unpack(&b"a"[..]).unwrap().read_to_end(&mut one).unwrap();
        assert_eq!(one, b"a");
    }
}
