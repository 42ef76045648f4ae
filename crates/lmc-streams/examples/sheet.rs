//! Draws a sheet of generated images, a class a row: `cargo run -p lmc-streams --example sheet -- generated-digits digits.png`

use lmc_streams::generated::{Family, draw, standard_seed};
use lmc_streams::{Picture, Split};

const PER_CLASS: u32 = 14;
const SIDE: usize = 32;
const ENLARGED: u32 = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "generated-digits".into());
    let path = arguments.next().unwrap_or_else(|| format!("{name}.png"));
    let family = Family::from_name(&name).ok_or_else(|| {
        let names = Family::ALL.map(Family::name).join(", ");
        format!("there is no generated set called '{name}'; take one of {names}")
    })?;

    let mut sheet = Picture::filled((SIDE + 1) * PER_CLASS as usize, (SIDE + 1) * 10, [90, 90, 160]);
    for label in 0..10 {
        for rank in 0..PER_CLASS {
            let picture = draw(family, &standard_seed(), Split::Train, label, rank);
            sheet.paste(&picture, (SIDE + 1) * rank as usize, (SIDE + 1) * label as usize);
        }
    }
    let (width, height) = (sheet.width as u32, sheet.height as u32);
    let sheet = image::RgbImage::from_raw(width, height, sheet.pixels).ok_or("the sheet has a wrong size")?;
    let nearest = image::imageops::FilterType::Nearest;
    image::imageops::resize(&sheet, width * ENLARGED, height * ENLARGED, nearest).save(&path)?;
    println!("{path}: {}", family.classes().join(", "));
    Ok(())
}
