//! Contact sheets: pictures of a stream (a row of samples per task) or of a data set (ten images a class).

use std::io::Cursor;
use std::path::Path;

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

use crate::dataset::{Dataset, Split};
use crate::error::{Error, Result};
use crate::picture::Picture;
use crate::replace_file::replace_file;
use crate::split::Survey;
use crate::stream::Stream;
use crate::task::Task;
use crate::transform::{Looks, Transform};

const PAPER: [u8; 3] = [250, 250, 248];
const INK: [u8; 3] = [34, 34, 40];
const FAINT: [u8; 3] = [120, 120, 128];
const GAP: usize = 6;
const LINE: usize = 16;

/// A row of a sheet: some lines of text, then pictures with captions.
struct SheetRow {
    lines: Vec<String>,
    cells: Vec<(Picture, String)>,
}

/// Draws a sheet with a row of samples per task.
pub fn of_stream(stream: &Stream) -> Picture {
    let few = stream.tasks.len() <= 12;
    let rows: Vec<SheetRow> =
        stream.tasks.iter().enumerate().map(|(number, task)| task_row(number, task, few)).collect();
    let mut title = format!("{}, seed {}, {}", stream.name, stream.seed, stream.variant);
    if !stream.substitutions.is_empty() {
        title = format!("{title}; {}", stream.substitutions.join("; "));
    }
    lay_out(&title, &rows, if few { 3 } else { 1 }, few)
}

/// Draws a sheet with ten images of every class; `survey` says how many there are in all.
pub fn of_dataset(dataset: &Dataset, survey: &Survey) -> Picture {
    let set = dataset.split(Split::Train).or_else(|| dataset.split(Split::Test));
    let by_class = set.map(|set| set.by_class()).unwrap_or_default();
    let row = |(label, indices): (usize, &Vec<(u32, u32)>)| {
        let pictures = indices.iter().take(10).filter_map(|&(_, index)| Some(set?.picture(index as usize)));
        let name = dataset.classes.get(label).cloned().unwrap_or_default();
        SheetRow { lines: vec![name], cells: pictures.map(|picture| (picture, String::new())).collect() }
    };
    let rows: Vec<SheetRow> = by_class.iter().enumerate().map(row).collect();
    let images: usize = survey.ranks.iter().flatten().map(Vec::len).sum();
    let title = format!("{}: {images} images, {} classes", dataset.name, dataset.classes.len());
    let large = dataset.shape().width > 64;
    lay_out(&title, &rows, if rows.len() > 20 || large { 1 } else { 2 }, false)
}

/// Writes a picture as PNG, atomically.
pub fn write_png(picture: &Picture, path: &Path) -> Result<()> {
    let mut bytes = Cursor::new(Vec::new());
    let encoder = PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Adaptive);
    let colour = if picture.channels == 1 { ExtendedColorType::L8 } else { ExtendedColorType::Rgb8 };
    encoder.write_image(&picture.pixels, picture.width as u32, picture.height as u32, colour).map_err(
        |error| Error::bad(path, format!("the picture cannot be encoded: {error}"), "report this"),
    )?;
    replace_file(path, &bytes.into_inner())
}

fn task_row(number: usize, task: &Task, few: bool) -> SheetRow {
    let per_class = (10 / task.classes.len().max(1)).max(1);
    let set = [&task.train, &task.test].into_iter().find(|set| !set.is_empty()).unwrap_or(&task.val);
    let mut cells = Vec::new();
    for (label, class) in task.classes.iter().enumerate().take(20) {
        for position in set.of_label(label as u32, per_class) {
            cells.push((set.picture(position), class.clone()));
        }
    }
    let counts = format!("{} / {} / {}", task.train.len(), task.val.len(), task.test.len());
    let mut lines = vec![format!("{} {}", number + 1, task.name), counts];
    if few {
        if task.dataset != task.name {
            lines.insert(1, task.dataset.clone());
        }
        if task.looks != Looks::One(Transform::Identity) {
            lines.extend(task.looks.to_string().split(", ").map(str::to_owned));
        }
        // The rule after the colon stands in the title; the name of a generated set stands above.
        let short = |text: &str| {
            let text = text.split(':').next().unwrap_or(text);
            text.strip_prefix(&task.dataset)
                .filter(|rest| rest.starts_with(' '))
                .unwrap_or(text)
                .trim()
                .to_owned()
        };
        lines.extend(task.substitution.as_deref().map(short));
    }
    SheetRow { lines, cells }
}

/// Rows below each other; many rows go into several blocks side by side.
fn lay_out(title: &str, rows: &[SheetRow], scale: usize, captions: bool) -> Picture {
    let character = get_raster_width(FontWeight::Regular, RasterHeight::Size16);
    let widest = rows.iter().flat_map(|row| &row.lines).map(|line| line.chars().count()).max().unwrap_or(0);
    let label = widest.min(32) * character + 2 * GAP;
    let cell = |picture: &Picture| (picture.width * scale + GAP, picture.height * scale + GAP);
    let cells = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    let sizes = rows.iter().flat_map(|row| &row.cells).map(|(picture, _)| cell(picture));
    let (cell_width, cell_height) = sizes.fold((GAP, GAP), |a, b| (a.0.max(b.0), a.1.max(b.1)));
    let lines = rows.iter().map(|row| row.lines.len()).max().unwrap_or(1);
    let row_height = (cell_height + if captions { LINE } else { 0 }).max(lines * LINE + GAP);
    let block_width = label + cells * cell_width + 2 * GAP;

    // About as wide as high when there are many rows.
    let area = (block_width * row_height * rows.len()) as f64;
    let per_block =
        if rows.len() <= 12 { rows.len() } else { ((area * 0.7).sqrt() as usize / row_height).max(12) };
    let blocks = rows.len().div_ceil(per_block.max(1)).max(1);
    let per_block = rows.len().div_ceil(blocks).max(1);
    let width = GAP + blocks * block_width;
    let title = wrap(title, (width.saturating_sub(2 * GAP)) / character);
    let top = GAP + title.len() * LINE + GAP;
    let mut page = Picture::filled(width, top + per_block * row_height + GAP, PAPER);
    for (number, line) in title.iter().enumerate() {
        write_text(&mut page, line, GAP, GAP + number * LINE, usize::MAX, INK);
    }
    for (number, row) in rows.iter().enumerate() {
        let left = GAP + number / per_block * block_width;
        let y = top + number % per_block * row_height;
        for (at, line) in row.lines.iter().enumerate() {
            let ink = if at == 0 { INK } else { FAINT };
            write_text(&mut page, line, left, y + at * LINE, label / character - 1, ink);
        }
        for (at, (picture, caption)) in row.cells.iter().enumerate() {
            let x = left + label + at * cell_width;
            page.paste(&enlarge(picture, scale), x, y);
            if captions {
                write_text(
                    &mut page,
                    caption,
                    x,
                    y + cell_height - GAP,
                    (cell_width - GAP) / character,
                    FAINT,
                );
            }
        }
    }
    page
}

fn enlarge(picture: &Picture, scale: usize) -> Picture {
    let mut pixels = Vec::with_capacity(picture.pixels.len() * scale * scale);
    for row in picture.pixels.chunks_exact((picture.width * picture.channels).max(1)) {
        let wide: Vec<u8> =
            row.chunks_exact(picture.channels).flat_map(|pixel| pixel.repeat(scale)).collect();
        (0..scale).for_each(|_| pixels.extend_from_slice(&wide));
    }
    Picture {
        width: picture.width * scale,
        height: picture.height * scale,
        channels: picture.channels,
        pixels,
    }
}

/// Writes at most `most` characters; what is longer ends in `..`.
fn write_text(page: &mut Picture, text: &str, left: usize, top: usize, most: usize, ink: [u8; 3]) {
    let fits = text.chars().count() <= most;
    let kept: String =
        if fits { text.to_owned() } else { text.chars().take(most.saturating_sub(2)).collect() };
    let kept = if fits { kept } else { format!("{kept}..") };
    for (number, character) in kept.chars().enumerate() {
        let raster = |c| get_raster(c, FontWeight::Regular, RasterHeight::Size16);
        let Some(glyph) = raster(character).or_else(|| raster('?')) else { continue };
        for (y, row) in glyph.rows().enumerate() {
            for (x, &strength) in row.iter().enumerate() {
                blend(page, left + number * glyph.width() + x, top + y, strength, ink);
            }
        }
    }
}

fn blend(page: &mut Picture, x: usize, y: usize, strength: u8, ink: [u8; 3]) {
    if strength == 0 || x >= page.width || y >= page.height {
        return;
    }
    let at = (y * page.width + x) * 3;
    for (pixel, ink) in page.pixels[at..at + 3].iter_mut().zip(ink) {
        let (old, new, strength) = (u32::from(*pixel), u32::from(ink), u32::from(strength));
        *pixel = ((old * (255 - strength) + new * strength) / 255) as u8;
    }
}

/// Breaks a text into lines of at most `width` characters, at spaces.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_spaces_and_cut() {
        assert_eq!(wrap("aa bb cc", 5), ["aa bb", "cc"]);
        let mut page = Picture::filled(60, 16, PAPER);
        write_text(&mut page, "abcdefghij", 0, 0, 4, INK);
        let inked = |from: usize, to: usize| {
            (0..16).any(|y| (from..to).any(|x| page.pixels[(y * 60 + x) * 3..][..3] != PAPER))
        };
        assert!(inked(0, 7) && !inked(29, 60), "two letters and two dots");
    }

    #[test]
    fn enlarging_repeats_pixels() {
        let picture = Picture { width: 2, height: 1, channels: 1, pixels: vec![1, 2] };
        assert_eq!(enlarge(&picture, 2).pixels, [1, 1, 2, 2, 1, 1, 2, 2]);
    }

    #[test]
    fn a_sheet_holds_every_cell() {
        let cell = |value: u8| (Picture::filled(4, 4, [value; 3]), "caption".to_owned());
        let rows: Vec<SheetRow> = (0..40)
            .map(|row| SheetRow { lines: vec!["task".into()], cells: vec![cell(row), cell(row + 100)] })
            .collect();
        let page = lay_out("title", &rows, 2, false);
        for value in (0..40).chain(100..140) {
            let found = page.pixels.chunks_exact(3).filter(|pixel| *pixel == [value; 3]).count();
            assert!(found >= 64, "cell {value} is there, enlarged: {found}");
        }
    }

    #[test]
    fn a_png_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let picture = Picture { width: 2, height: 1, channels: 3, pixels: vec![1, 2, 3, 4, 5, 6] };
        write_png(&picture, &path).unwrap();
        let back = image::open(&path).unwrap().into_rgb8();
        assert_eq!(back.into_raw(), picture.pixels);
    }
}
