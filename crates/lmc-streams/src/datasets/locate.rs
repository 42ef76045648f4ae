//! Where a known data set lies, and the layouts that are understood in its folder: the files of its makers, or
//! parquet files in the Hugging Face layout.

use std::path::{Path, PathBuf};

use crate::dataset::{Dataset, Keep, ReadOptions, Split};
use crate::error::Result;
use crate::formats::{self, cifar, dtd, folder, idx, mat, omniglot, parquet_files};
use crate::prepare::{Channels, Fit, Prepare};
use crate::read_report::LeftOut;

/// A known data set that was found on this machine.
#[derive(Clone, Debug)]
pub struct Located {
    /// The name by which it is known.
    pub name: String,
    /// The folder that it lies in.
    pub path: PathBuf,
    layout: DatasetLayout,
}

/// How a data set lies in its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DatasetLayout {
    /// Four IDX files, packed or not: images and labels of training and test.
    Idx([PathBuf; 4]),
    Parquet(Vec<(Split, PathBuf)>),
    Cifar(PathBuf, cifar::Kind),
    Mat([PathBuf; 2]),
    Dtd(PathBuf),
    Omniglot,
    /// Class folders lie below `train`, `val` and `test`.
    Folder,
}

impl Located {
    /// Recognises a data set by what its folder holds.
    pub(super) fn at(path: &Path, name: &str) -> Option<Self> {
        let own = match name {
            "mnist" | "fashion-mnist" => idx_files(path).map(DatasetLayout::Idx),
            "cifar10" => cifar_files(path, "cifar-10", "data_batch_1.bin")
                .map(|p| DatasetLayout::Cifar(p, cifar::Kind::Ten)),
            "cifar100" => cifar_files(path, "cifar-100", "train.bin")
                .map(|p| DatasetLayout::Cifar(p, cifar::Kind::Hundred)),
            "svhn" => {
                let files = ["train_32x32.mat", "test_32x32.mat"].map(|file| path.join(file));
                files.iter().all(|file| file.is_file()).then_some(DatasetLayout::Mat(files))
            }
            "dtd" => [path.to_owned(), path.join("dtd")]
                .into_iter()
                .find(|root| root.join("labels/train1.txt").is_file())
                .map(DatasetLayout::Dtd),
            "omniglot" => {
                ["images_background", "images_background.zip", "images_evaluation", "images_evaluation.zip"]
                    .iter()
                    .any(|part| path.join(part).exists())
                    .then_some(DatasetLayout::Omniglot)
            }
            "mini-imagenet" => path.join("train").is_dir().then_some(DatasetLayout::Folder),
            _ => None,
        };
        let from_parquet = || {
            let files = parquet_files::find_files(path).ok().filter(|files| !files.is_empty())?;
            Some(DatasetLayout::Parquet(files))
        };
        let layout = own.or_else(from_parquet)?;
        Some(Self { name: name.to_owned(), path: path.to_owned(), layout })
    }

    /// A word for the layout: `idx`, `parquet`, `cifar binary`, `matlab` or `pictures`.
    pub fn layout(&self) -> &'static str {
        match self.layout {
            DatasetLayout::Idx(_) => "idx",
            DatasetLayout::Parquet(_) => "parquet",
            DatasetLayout::Cifar(..) => "cifar binary",
            DatasetLayout::Mat(_) => "matlab",
            DatasetLayout::Dtd(_) | DatasetLayout::Omniglot | DatasetLayout::Folder => "pictures",
        }
    }

    /// Numbers of training and test images that lie here, where they are known without decoding anything.
    pub fn images(&self) -> Option<[u64; 2]> {
        match &self.layout {
            DatasetLayout::Idx([train, _, test, _]) => Some([idx::count(train)?, idx::count(test)?]),
            DatasetLayout::Parquet(files) => {
                let mut counts = [0, 0];
                for (split, file) in files {
                    counts[usize::from(*split == Split::Test)] += formats::describe_parquet(file)?.0;
                }
                Some(counts)
            }
            _ => None,
        }
    }

    /// Class names, where they can be had without reading everything.
    pub fn classes(&self) -> Option<Vec<String>> {
        match &self.layout {
            DatasetLayout::Idx(_) | DatasetLayout::Mat(_) => {
                Some(class_names(&self.name)).filter(|names| !names.is_empty())
            }
            DatasetLayout::Parquet(files) => {
                let (_, names) = formats::describe_parquet(&files.first()?.1)?;
                names.filter(|names| !names.is_empty()).map(|names| self.named(names))
            }
            _ => None,
        }
    }

    /// Reads the images that `keep` names, prepared as the paper's streams need them.
    pub fn read(&self, keep: &Keep<'_>) -> Result<Dataset> {
        self.read_with(&ReadOptions { upright: false, ..ReadOptions::keeping(self.prepare(), keep) })
    }

    /// Reads the images with a preparation of the caller's. Grey files (IDX) stay grey where RGB is wanted: a
    /// [`crate::TaskSet`] replicates them, and the set takes a third of the memory.
    pub fn read_with(&self, options: &ReadOptions<'_>) -> Result<Dataset> {
        match &self.layout {
            DatasetLayout::Idx([train, train_labels, test, test_labels]) => {
                let classes = class_names(&self.name);
                let options = ReadOptions { prepare: options.prepare.keeping_grey(), ..*options };
                let read = |images, labels, split| idx::read(images, labels, split, classes.len(), &options);
                let (train, test) = rayon::join(
                    || read(train, train_labels, Split::Train),
                    || read(test, test_labels, Split::Test),
                );
                Ok(self.dataset(classes, train?, test?))
            }
            DatasetLayout::Mat([train, test]) => {
                let read = |path, split| mat::read(path, split, options);
                let (train, test) = rayon::join(|| read(train, Split::Train), || read(test, Split::Test));
                Ok(self.dataset(class_names(&self.name), train?, test?))
            }
            DatasetLayout::Parquet(files) => {
                let mut dataset = formats::read_parquet(&self.name, files, options)?;
                dataset.classes = self.named(dataset.classes);
                Ok(dataset)
            }
            DatasetLayout::Cifar(path, kind) => cifar::read(path, *kind, options),
            DatasetLayout::Dtd(root) => dtd::read(root, options),
            DatasetLayout::Omniglot => omniglot::read(&self.path, options),
            DatasetLayout::Folder => folder::read_class_splits(&self.path, options),
        }
    }

    /// The paper's class names (`8 - eight`), where a file has only the numbers.
    fn named(&self, classes: Vec<String>) -> Vec<String> {
        let full = class_names(&self.name);
        let numbers = classes.iter().enumerate().all(|(label, name)| *name == label.to_string());
        if numbers && full.len() == classes.len() { full } else { classes }
    }

    fn dataset(&self, classes: Vec<String>, train: crate::ImageSet, test: crate::ImageSet) -> Dataset {
        let (train, test) = (train.into(), test.into());
        Dataset { name: self.name.clone(), classes, train, val: None, test, left_out: LeftOut::default() }
    }

    /// How the paper prepares the set (specification §3.1 and §3.8).
    fn prepare(&self) -> Prepare {
        let rgb = Prepare { fit: Fit::AsIs, channels: Channels::Rgb, invert: false };
        match self.name.as_str() {
            "mnist" | "fashion-mnist" => {
                Prepare { fit: Fit::TorchSquare(32), channels: Channels::Grey, invert: false }
            }
            "dtd" => Prepare::rgb_square(32),
            // The parquet file that is around has white ink already.
            "omniglot" => Prepare {
                fit: Fit::PillowSquare(28),
                channels: Channels::Grey,
                invert: self.layout == DatasetLayout::Omniglot,
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
