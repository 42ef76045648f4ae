//! Folders of generated pictures, a folder for each class.

use std::fs;
use std::path::Path;

use lmc_streams::generated::{self, Family};
use lmc_streams::{Picture, Seed, Split};

use crate::machine::Machine;

fn save(picture: &Picture, path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (width, height) = (picture.width as u32, picture.height as u32);
    let rgb = picture.clone().into_rgb();
    image::RgbImage::from_raw(width, height, rgb.pixels).unwrap().save(path).unwrap();
}

/// A folder of PNG files, `classes` classes with a few pictures each.
pub fn folder(machine: &Machine, name: &str, family: Family, classes: u32, pictures: u32) {
    for label in 0..classes {
        for rank in 0..pictures {
            let picture = generated::draw(family, &Seed::root(5), Split::Train, label, rank);
            let class = family.classes()[label as usize].replace(' ', "-");
            save(&picture, &machine.path(&format!("{name}/{class}/{rank}.png")));
        }
    }
}
