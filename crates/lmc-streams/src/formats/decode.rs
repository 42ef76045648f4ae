//! Encoded pictures (PNG, JPEG, WebP, GIF, BMP, TIFF) become [`Picture`]s (specification §3.1: everything is
//! 8 bit). [`Picture::open`] and [`Picture::decode`] are the way in.
//!
//! Grey stays grey (one channel), colour becomes RGB. 16 bits are scaled to 8. Transparency is laid over
//! white, so that a transparent drawing looks as it does on paper. Of an animation the first frame is read. A
//! user's photo is turned upright by its EXIF orientation; the paper's data sets are read as they are stored,
//! as Pillow and torchvision did.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use image::codecs::bmp::BmpDecoder;
use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::JpegDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::tiff::TiffDecoder;
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{ColorType, ImageDecoder, ImageError, Limits};

use super::jpeg_markers::is_cut_short;
use super::jpeg_scans::lacks_codes;
use super::orientation::upright;
use crate::error::Error;
use crate::memory::{MemoryBudget, Reservation};
use crate::picture::Picture;
use crate::regular_file::size_text;

/// Extensions of the files that are taken for pictures, in lower case.
pub const EXTENSIONS: [&str; 8] = ["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff"];

/// The formats, for messages.
const FORMATS: &str = "PNG, JPEG, WebP, GIF, BMP or TIFF";

/// Longest side, in pixels, of a picture that is decoded.
pub const LARGEST_SIDE: u32 = 16_384;

/// Most bytes that a decoded picture may take.
pub const LARGEST_PICTURE: u64 = 256 << 20;

/// Bytes in use for each byte of a decoded picture, at most: the decoder's own copy or coefficients, the pixels, and the
/// picture that they become.
const WORKING_COPIES: u64 = 4;

/// Why a picture could not be decoded, and what to do; the caller knows the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {cure}")]
pub struct DecodeProblem {
    /// What is wrong with the bytes.
    pub problem: String,
    /// What the user can do about it.
    pub cure: &'static str,
}

impl DecodeProblem {
    /// The error of a file that is one picture.
    pub fn in_file(self, path: &Path) -> Error {
        Error::bad(path, self.problem, self.cure)
    }

    /// The error of a row of a file with many pictures.
    pub fn at_row(self, path: &Path, row: impl Into<String>) -> Error {
        Error::bad_at(path, row, self.problem, self.cure)
    }
}

/// A decoded picture and its share of the memory budget, to be kept until the picture is made small.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// The picture.
    pub picture: Picture,
    /// Free again when it is dropped.
    pub held: Reservation<'static>,
}

/// Decodes a picture as soon as the memory budget has room for it; `turn` makes it upright as its EXIF orientation says.
pub(crate) fn decode(bytes: &[u8], turn: bool) -> Result<Decoded, DecodeProblem> {
    let damaged = || problem("the picture is damaged: the decoder gave up", REPLACE);
    catch_panic(|| decode_known(bytes, turn)).unwrap_or_else(|| Err(damaged()))
}

/// Runs code of other people on bytes of other people.
///
/// Decoders are large, and some of their assertions can be reached by hostile bytes (negative offsets in
/// parquet footers are one). The user is owed a message that names the file, not a crash.
pub(super) fn catch_panic<T>(run: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).ok()
}

const REPLACE: &str = "replace it by an intact copy, or remove it";

fn problem(problem: impl Into<String>, cure: &'static str) -> DecodeProblem {
    DecodeProblem { problem: problem.into(), cure }
}

fn decode_known(bytes: &[u8], turn: bool) -> Result<Decoded, DecodeProblem> {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    let source = Cursor::new(bytes);
    if starts(b"\x89PNG\r\n\x1a\n") {
        read(PngDecoder::with_limits(source, limits()), "PNG", turn)
    } else if starts(b"\xff\xd8\xff") {
        let cut = || problem("the JPEG picture is cut short", REPLACE);
        if is_cut_short(bytes) {
            return Err(cut());
        }
        // Afterwards, because the decoder has checked the size and the memory is reserved.
        let decoded = read(JpegDecoder::new(source), "JPEG", turn)?;
        if lacks_codes(bytes) { Err(cut()) } else { Ok(decoded) }
    } else if starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        read(WebPDecoder::new(source), "WebP", turn)
    } else if starts(b"GIF87a") || starts(b"GIF89a") {
        read(GifDecoder::new(source), "GIF", turn)
    } else if starts(b"BM") {
        read(BmpDecoder::new(source), "BMP", turn)
    } else if [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"].into_iter().any(|magic| starts(magic)) {
        read(TiffDecoder::new(source), "TIFF", turn)
    } else if bytes.is_empty() {
        Err(problem("the picture is empty", REPLACE))
    } else {
        Err(problem(format!("this is not a {FORMATS} picture"), "convert it to PNG, or remove it"))
    }
}

/// What a decoder may use: a small file may claim to be a giant.
fn limits() -> Limits {
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(LARGEST_SIDE);
    limits.max_image_height = Some(LARGEST_SIDE);
    limits.max_alloc = Some(LARGEST_PICTURE);
    limits
}

fn read(
    decoder: Result<impl ImageDecoder, ImageError>,
    format: &str,
    turn: bool,
) -> Result<Decoded, DecodeProblem> {
    let explain = |error: ImageError| match error {
        ImageError::Limits(_) => too_large(),
        ImageError::Unsupported(_) => {
            let kind = format!("this kind of {format} picture is not read ({})", first_line(&error));
            problem(kind, "convert it to an 8-bit PNG")
        }
        other => problem(format!("the {format} picture is damaged ({})", first_line(&other)), REPLACE),
    };
    let mut decoder = decoder.map_err(explain)?;
    let (width, height) = decoder.dimensions();
    let total = decoder.total_bytes();
    if width > LARGEST_SIDE || height > LARGEST_SIDE || total > LARGEST_PICTURE {
        return Err(too_large());
    }
    let held = room_for(MemoryBudget::of_process(), total * WORKING_COPIES)?;
    decoder.set_limits(limits()).map_err(explain)?;
    // A note that cannot be read is no reason to refuse the pixels.
    let noted = if turn { decoder.orientation().ok() } else { None };
    let colour = decoder.color_type();
    let mut pixels = vec![0; usize::try_from(total).map_err(|_| too_large())?];
    decoder.read_image(&mut pixels).map_err(explain)?;
    if matches!(colour, ColorType::L16 | ColorType::La16 | ColorType::Rgb16 | ColorType::Rgba16) {
        pixels = narrow(&pixels);
    }
    let (channels, pixels) = match colour {
        ColorType::L8 | ColorType::L16 => (1, pixels),
        ColorType::La8 | ColorType::La16 => (1, over_white::<2>(&pixels)),
        ColorType::Rgb8 | ColorType::Rgb16 => (3, pixels),
        ColorType::Rgba8 | ColorType::Rgba16 => (3, over_white::<4>(&pixels)),
        other => return Err(problem(format!("pixels of kind {other:?}"), "convert it to an 8-bit PNG")),
    };
    let picture = Picture { width: width as usize, height: height as usize, channels, pixels };
    Ok(Decoded { picture: upright(picture, noted.unwrap_or(Orientation::NoTransforms)), held })
}

fn room_for(budget: &MemoryBudget, bytes: u64) -> Result<Reservation<'_>, DecodeProblem> {
    budget.reserve(bytes).ok_or_else(|| {
        let (bytes, budget) = (size_text(bytes), size_text(budget.bytes()));
        problem(
            format!("decoding the picture takes up to {bytes}, and the memory budget (--memory) is {budget}"),
            "give more with --memory, make the picture smaller, or remove it",
        )
    })
}

fn too_large() -> DecodeProblem {
    problem(
        format!("the picture is larger than {LARGEST_SIDE} pixels a side or 256 MiB"),
        "make it smaller, or remove it",
    )
}

/// Messages of decoders may span lines; ours are one line.
fn first_line(error: &ImageError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// 16 bits to 8, rounded: 65535 is 255 * 257.
fn narrow(pixels: &[u8]) -> Vec<u8> {
    let wide = pixels.chunks_exact(2).map(|pair| u16::from_ne_bytes([pair[0], pair[1]]));
    wide.map(|value| ((u32::from(value) + 128) / 257) as u8).collect()
}

/// Lays pixels over white; alpha is the last of `N` channels.
fn over_white<const N: usize>(pixels: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(pixels.len() / N * (N - 1));
    for pixel in pixels.chunks_exact(N) {
        let alpha = u32::from(pixel[N - 1]);
        let mix = |&value: &u8| ((u32::from(value) * alpha + 255 * (255 - alpha) + 127) / 255) as u8;
        result.extend(pixel[..N - 1].iter().map(mix));
    }
    result
}

#[cfg(test)]
mod tests {
    use image::codecs::png::PngEncoder;
    use image::{ExtendedColorType, ImageEncoder, ImageFormat};
    use proptest::prelude::*;

    use super::*;

    /// Decodes as stored.
    fn decode(bytes: &[u8]) -> Result<Picture, DecodeProblem> {
        Ok(super::decode(bytes, false)?.picture)
    }

    const EVERY: [ImageFormat; 6] = [
        ImageFormat::Png,
        ImageFormat::Jpeg,
        ImageFormat::WebP,
        ImageFormat::Gif,
        ImageFormat::Bmp,
        ImageFormat::Tiff,
    ];

    fn png(pixels: &[u8], width: u32, height: u32, colour: ExtendedColorType) -> Vec<u8> {
        let mut bytes = Vec::new();
        PngEncoder::new(&mut bytes).write_image(pixels, width, height, colour).unwrap();
        bytes
    }

    fn encode(format: ImageFormat) -> Vec<u8> {
        let pixels = (0..8 * 8 * 3).map(|at| (at * 7 % 256) as u8).collect();
        let image = image::RgbImage::from_raw(8, 8, pixels).unwrap();
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    /// A PNG with an honest checksum whose header says `side` x `side`.
    fn giant_png(side: u32) -> Vec<u8> {
        let mut bytes = png(&[0], 1, 1, ExtendedColorType::L8);
        bytes[16..20].copy_from_slice(&side.to_be_bytes());
        bytes[20..24].copy_from_slice(&side.to_be_bytes());
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[12..29]);
        bytes[29..33].copy_from_slice(&crc.sum().to_be_bytes());
        bytes
    }

    #[test]
    fn colour_kinds() {
        let grey = decode(&png(&[0, 100, 255], 3, 1, ExtendedColorType::L8)).unwrap();
        assert_eq!(grey, Picture { width: 3, height: 1, channels: 1, pixels: vec![0, 100, 255] });
        // Half transparent black over white: (0 * 128 + 255 * 127 + 127) / 255 = 127.
        let drawing = decode(&png(&[0, 128, 9, 0], 2, 1, ExtendedColorType::La8)).unwrap();
        assert_eq!((drawing.channels, drawing.pixels), (1, vec![127, 255]));
        let glass = decode(&png(&[255, 0, 10, 51], 1, 1, ExtendedColorType::Rgba8)).unwrap();
        // 51 = 255 / 5, so four fifths are white: 204, and 2 of the 10.
        assert_eq!((glass.channels, glass.pixels), (3, vec![255, 204, 206]));
        // 0x0100 = 256 is nearer to 1 than to 0; 0x8000 = 32768 / 257 = 127.5 -> 128; 0x007f -> 0.
        let wide: Vec<u8> = [0x0100_u16, 0x8000, 0x007f].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(decode(&png(&wide, 3, 1, ExtendedColorType::L16)).unwrap().pixels, [1, 128, 0]);
    }

    #[test]
    fn one_bit_grey_and_palettes() {
        // Made with Pillow: 3 x 1 pixels, mode "1" (white, black, white) and mode "P" (red, blue, red).
        let bits = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x01\x01\0\0\0\0";
        let picture = decode(&with_data(bits, &[], &[0, 0b1010_0000])).unwrap();
        assert_eq!((picture.channels, picture.pixels), (1, vec![255, 0, 255]));
        let palette = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x01\x08\x03\0\0\0";
        let picture = decode(&with_data(palette, &[255, 0, 0, 0, 0, 255], &[0, 0, 1, 0])).unwrap();
        assert_eq!((picture.channels, picture.pixels), (3, vec![255, 0, 0, 0, 0, 255, 255, 0, 0]));
    }

    /// Completes a PNG: checksum of the header, palette, filtered rows, end.
    fn with_data(header: &[u8], palette: &[u8], rows: &[u8]) -> Vec<u8> {
        use std::io::Write;
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        zlib.write_all(rows).unwrap();
        let mut bytes = header[..8].to_vec();
        let data = zlib.finish().unwrap();
        for (name, content) in
            [(b"IHDR", &header[16..]), (b"PLTE", palette), (b"IDAT", &data[..]), (b"IEND", &[])]
        {
            if content.is_empty() && name == b"PLTE" {
                continue;
            }
            let start = bytes.len() + 4;
            bytes.extend((content.len() as u32).to_be_bytes());
            bytes.extend(name);
            bytes.extend(content);
            let mut crc = flate2::Crc::new();
            crc.update(&bytes[start..]);
            bytes.extend(crc.sum().to_be_bytes());
        }
        bytes
    }

    #[test]
    fn a_giant_is_refused_by_its_header() {
        let refused = decode(&giant_png(60_000)).unwrap_err();
        assert!(refused.problem.contains("16384 pixels a side"), "{refused:?}");
        // Within the sides, but 16,000 * 16,000 bytes are 244 MiB: allowed, and found to be a lie.
        let lie = decode(&giant_png(16_000)).unwrap_err();
        assert!(lie.problem.contains("PNG picture is damaged"), "{lie:?}");
    }

    #[test]
    fn what_is_not_a_picture_is_said() {
        let text = decode(b"hello, I am a text").unwrap_err();
        assert!(
            text.problem.contains("not a PNG, JPEG, WebP, GIF, BMP or TIFF") && text.cure.contains("convert"),
            "{text:?}"
        );
        assert!(decode(b"").unwrap_err().problem.contains("empty"));
    }

    #[test]
    fn what_is_cut_short_is_said() {
        for format in EVERY {
            let whole = encode(format);
            assert_eq!(decode(&whole).unwrap().pixels.len(), 192);
            for keep in [whole.len() * 2 / 3, whole.len() - 40] {
                let error = decode(&whole[..keep]).unwrap_err();
                assert!(
                    error.problem.contains("damaged") || error.problem.contains("cut short"),
                    "{error:?}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn mutated_bytes_never_panic(
            format in 0..6_usize,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = encode(EVERY[format]);
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            let _ = decode(&bytes);
            let _ = decode(&bytes[..cut.index(bytes.len())]);
        }

        #[test]
        fn random_bytes_never_panic(head in 0..7_usize, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let heads: [&[u8]; 7] = [
                b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\x40\0\0\0WEBPVP8L", b"GIF89a", b"BM", b"II*\0",
            ];
            let _ = decode(&[heads[head], &bytes].concat());
        }

        #[test]
        fn png_comes_back(pixels in prop::collection::vec(any::<u8>(), 12)) {
            let picture = decode(&png(&pixels, 2, 2, ExtendedColorType::Rgb8)).unwrap();
            prop_assert_eq!(picture.pixels, pixels);
        }
    }
}
