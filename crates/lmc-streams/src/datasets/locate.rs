//! Where data lies: folders that are searched in order, and the layouts that are understood in them.
//!
//! Search order: the folder that the user names, `$LMC_DATA`, `../shared/data`, the platform's own data
//! folder. In each, a data set is a sub-folder with its name, holding either the files of its makers or
//! parquet files in the Hugging Face layout.

use std::env;
use std::path::{Path, PathBuf};

use crate::dataset::{Dataset, ReadOptions, Split};
use crate::error::{Error, Result};
use crate::formats::{cifar, dtd, folder, idx, mat, omniglot, parquet};
use crate::prepare::{Channels, Fit, Prepare};

/// The folders that are searched, in order.
#[derive(Clone, Debug, Default)]
pub struct DataDirs {
    dirs: Vec<PathBuf>,
}

impl DataDirs {
    /// The search order of the program; `given` is what the user named.
    pub fn search(given: Option<&Path>) -> Result<Self> {
        if let Some(dir) = given
            && !dir.is_dir()
        {
            return Err(Error::bad(dir, "no such data folder", "correct --data-dir, or create the folder"));
        }
        let all =
            [given.map(Path::to_owned), variable("LMC_DATA"), Some("../shared/data".into()), platform_dir()];
        Ok(Self { dirs: all.into_iter().flatten().collect() })
    }

    /// One folder alone.
    pub fn only(dir: impl Into<PathBuf>) -> Self {
        Self { dirs: vec![dir.into()] }
    }

    /// Where `lmc data get` puts things: the named folder, `$LMC_DATA`, or the platform's own.
    pub fn download_dir(given: Option<&Path>) -> Option<PathBuf> {
        given.map(Path::to_owned).or_else(|| variable("LMC_DATA")).or_else(platform_dir)
    }

    /// The folders.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// The folders, for messages.
    pub fn describe(&self) -> String {
        self.dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Finds a known data set: the first folder that holds it in a layout that we understand.
    pub fn locate(&self, name: &str) -> Option<Located> {
        self.dirs.iter().find_map(|dir| Located::at(&dir.join(name), name))
    }
}

/// A path from the environment; an empty one counts as none.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The platform's folder for application data.
fn platform_dir() -> Option<PathBuf> {
    let base = if cfg!(target_os = "windows") {
        variable("APPDATA")
    } else if cfg!(target_os = "macos") {
        variable("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        variable("XDG_DATA_HOME").or_else(|| variable("HOME").map(|home| home.join(".local/share")))
    };
    base.map(|base| base.join("lmc"))
}

/// A data set on this machine.
#[derive(Clone, Debug)]
pub struct Located {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    layout: Layout,
}

/// How a data set lies in its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Layout {
    /// Four IDX files, packed or not: images and labels of training and test.
    Idx([PathBuf; 4]),
    Parquet(Vec<(Split, PathBuf)>),
    Cifar(PathBuf, cifar::Kind),
    Mat([PathBuf; 2]),
    Dtd(PathBuf),
    Omniglot,
    /// Class folders below `train`, `val` and `test`.
    Folder,
}

impl Located {
    fn at(path: &Path, name: &str) -> Option<Self> {
        let own = match name {
            "mnist" | "fashion-mnist" => idx_files(path).map(Layout::Idx),
            "cifar10" => {
                cifar_files(path, "cifar-10", "data_batch_1.bin").map(|p| Layout::Cifar(p, cifar::Kind::Ten))
            }
            "cifar100" => {
                cifar_files(path, "cifar-100", "train.bin").map(|p| Layout::Cifar(p, cifar::Kind::Hundred))
            }
            "svhn" => {
                let files = ["train_32x32.mat", "test_32x32.mat"].map(|file| path.join(file));
                files.iter().all(|file| file.is_file()).then_some(Layout::Mat(files))
            }
            "dtd" => [path.to_owned(), path.join("dtd")]
                .into_iter()
                .find(|root| root.join("labels/train1.txt").is_file())
                .map(Layout::Dtd),
            "omniglot" => {
                ["images_background", "images_background.zip", "images_evaluation", "images_evaluation.zip"]
                    .iter()
                    .any(|part| path.join(part).exists())
                    .then_some(Layout::Omniglot)
            }
            "mini-imagenet" => path.join("train").is_dir().then_some(Layout::Folder),
            _ => None,
        };
        let from_parquet = || {
            let files = parquet::find_files(path).ok().filter(|files| !files.is_empty())?;
            Some(Layout::Parquet(files))
        };
        let layout = own.or_else(from_parquet)?;
        Some(Self { name: name.to_owned(), path: path.to_owned(), layout })
    }

    /// A word for the layout.
    pub fn layout(&self) -> &'static str {
        match self.layout {
            Layout::Idx(_) => "idx",
            Layout::Parquet(_) => "parquet",
            Layout::Cifar(..) => "cifar binary",
            Layout::Mat(_) => "matlab",
            Layout::Dtd(_) | Layout::Omniglot | Layout::Folder => "pictures",
        }
    }

    /// Training and test images that lie here, where it can be told without decoding anything.
    pub fn images(&self) -> Option<[u64; 2]> {
        match &self.layout {
            Layout::Idx([train, _, test, _]) => Some([idx::count(train)?, idx::count(test)?]),
            Layout::Parquet(files) => {
                let mut counts = [0, 0];
                for (split, file) in files {
                    counts[usize::from(*split == Split::Test)] += parquet::describe(file).ok()?.rows;
                }
                Some(counts)
            }
            _ => None,
        }
    }

    /// Class names, where they can be had without reading everything.
    pub fn classes(&self) -> Option<Vec<String>> {
        match &self.layout {
            Layout::Idx(_) | Layout::Mat(_) => {
                Some(class_names(&self.name)).filter(|names| !names.is_empty())
            }
            Layout::Parquet(files) => {
                let names = parquet::describe(&files.first()?.1).ok()?.classes;
                names.filter(|names| !names.is_empty()).map(|names| self.named(names))
            }
            _ => None,
        }
    }

    /// Reads the images that `options.keep` names, prepared as the paper's streams need them.
    pub fn read(&self, keep: &crate::dataset::Keep<'_>) -> Result<Dataset> {
        let options = ReadOptions::keeping(self.prepare(), keep);
        match &self.layout {
            Layout::Idx([train, train_labels, test, test_labels]) => {
                let classes = class_names(&self.name);
                let read = |images, labels, split| idx::read(images, labels, split, classes.len(), &options);
                let (train, test) = rayon::join(
                    || read(train, train_labels, Split::Train),
                    || read(test, test_labels, Split::Test),
                );
                Ok(self.dataset(classes, train?, test?))
            }
            Layout::Mat([train, test]) => {
                let read = |path, split| mat::read(path, split, &options);
                let (train, test) = rayon::join(|| read(train, Split::Train), || read(test, Split::Test));
                Ok(self.dataset(class_names(&self.name), train?, test?))
            }
            Layout::Parquet(files) => {
                let mut dataset = parquet::read(&self.name, files, None, &options)?;
                dataset.classes = self.named(dataset.classes);
                Ok(dataset)
            }
            Layout::Cifar(path, kind) => cifar::read(path, *kind, &options),
            Layout::Dtd(root) => dtd::read(root, &options),
            Layout::Omniglot => omniglot::read(&self.path, &options),
            Layout::Folder => folder::read_class_splits(&self.path, &options),
        }
    }

    /// The paper's class names (`8 - eight`), where a file has only the numbers.
    fn named(&self, classes: Vec<String>) -> Vec<String> {
        let full = class_names(&self.name);
        let numbers = classes.iter().enumerate().all(|(label, name)| *name == label.to_string());
        if numbers && full.len() == classes.len() { full } else { classes }
    }

    fn dataset(&self, classes: Vec<String>, train: crate::ImageSet, test: crate::ImageSet) -> Dataset {
        Dataset { name: self.name.clone(), classes, train: train.into(), val: None, test: test.into() }
    }

    /// §3.1 and §3.8 of the specification.
    fn prepare(&self) -> Prepare {
        let rgb = Prepare { fit: Fit::AsIs, channels: Channels::Rgb, invert: false };
        match self.name.as_str() {
            "mnist" | "fashion-mnist" => {
                Prepare { fit: Fit::TorchSquare(32), channels: Channels::Grey, invert: false }
            }
            "dtd" => Prepare::rgb_square(32),
            // The parquet file of the shared data has white ink already.
            "omniglot" => Prepare {
                fit: Fit::PillowSquare(28),
                channels: Channels::Grey,
                invert: self.layout == Layout::Omniglot,
            },
            "mini-imagenet" => Prepare::rgb_square(84),
            _ => rgb,
        }
    }
}

/// Class names of the sets whose files do not carry them.
pub(crate) fn class_names(name: &str) -> Vec<String> {
    let names: &[&str] = match name {
        "mnist" | "svhn" => &[
            "0 - zero",
            "1 - one",
            "2 - two",
            "3 - three",
            "4 - four",
            "5 - five",
            "6 - six",
            "7 - seven",
            "8 - eight",
            "9 - nine",
        ],
        "fashion-mnist" => &[
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ],
        _ => &[],
    };
    names.iter().map(ToString::to_string).collect()
}

/// The four IDX files, each packed or not.
fn idx_files(dir: &Path) -> Option<[PathBuf; 4]> {
    let find = |name: &str| {
        let packed = dir.join(format!("{name}.gz"));
        [packed, dir.join(name)].into_iter().find(|file| file.is_file())
    };
    Some([
        find("train-images-idx3-ubyte")?,
        find("train-labels-idx1-ubyte")?,
        find("t10k-images-idx3-ubyte")?,
        find("t10k-labels-idx1-ubyte")?,
    ])
}

/// The binary version of a CIFAR set: its archive, its folder, or its files right here.
fn cifar_files(dir: &Path, stem: &str, file: &str) -> Option<PathBuf> {
    let unpacked = ["", "cifar-10-batches-bin", "cifar-100-binary"].map(|sub| dir.join(sub));
    let folder = unpacked.into_iter().find(|folder| folder.join(file).is_file());
    folder.or_else(|| Some(dir.join(format!("{stem}-binary.tar.gz"))).filter(|archive| archive.is_file()))
}
