//! The data sets that we know by name, with their official files and counts (specification §3.1).
//!
//! Sizes and checksums are those that TensorFlow Datasets and other public lists record for the official
//! files. Class counts matter because a rank (`ctrl_streams_seed180.tsv`) means nothing without them
//! (specification §3.5).

use super::official_files::{
    CIFAR10_FILES, CIFAR100_FILES, DTD_FILES, FASHION_FILES, MNIST_FILES, OMNIGLOT_FILES, SVHN_FILES,
};
use crate::error::{Error, Result};

/// A data set that we know by name.
#[derive(Clone, Copy, Debug)]
pub struct KnownDataset {
    /// The name that users write; also the name of its folder in the data folder.
    pub name: &'static str,
    /// The name that people and papers write.
    pub title: &'static str,
    /// Number of classes of the whole set.
    pub classes: usize,
    /// Number of training images; of all images, when there is no official split.
    pub train: u32,
    /// Number of validation images that the makers set apart.
    pub val: u32,
    /// Number of test images.
    pub test: u32,
    /// Numbers of images of the single classes.
    pub class_counts: ClassCounts,
    /// What the makers allow, as far as they say it.
    pub licence: &'static str,
    /// What it is; for a set without a download also why, and what to do.
    pub about: &'static str,
    /// The official files; none, when there is nothing that we could download.
    pub files: &'static [SourceFile],
}

/// How many images each class has at the official source.
#[derive(Clone, Copy, Debug)]
pub enum ClassCounts {
    /// Every class has the same number of images.
    Even {
        /// Training images of every class.
        train: u32,
        /// Test images of every class.
        test: u32,
    },
    /// Classes have numbers of their own, in label order.
    Uneven {
        /// Training images of each class.
        train: &'static [u32],
        /// Test images of each class.
        test: &'static [u32],
    },
    /// There is no official number of images per class.
    Unknown,
}

/// A file of a data set, as the makers publish it.
#[derive(Clone, Copy, Debug)]
pub struct SourceFile {
    /// Name of the file in the folder of the data set.
    pub name: &'static str,
    /// Addresses of the file, the best first.
    pub addresses: &'static [&'static str],
    /// SHA-256 of the file in lower-case hexadecimal.
    pub sha256: &'static str,
    /// Exact size of the file in bytes.
    pub bytes: u64,
    /// What to do with the file once it is downloaded.
    pub unpack: Unpack,
}

/// What happens to a file after its download.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unpack {
    /// The file stays as it is: our readers read it so.
    Keep,
    /// The file is a gzipped tar archive with everything in one folder, which is put beside it.
    TarGz {
        /// Name of the folder in the archive.
        folder: &'static str,
        /// The most bytes that it may unpack to.
        limit: u64,
    },
}

impl KnownDataset {
    /// Number of bytes to download for the whole set.
    pub fn download_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Images per class (train, test) at the official source, in label order.
    pub fn counts(&self) -> Option<(Vec<u32>, Vec<u32>)> {
        match self.class_counts {
            ClassCounts::Even { train, test } => Some((vec![train; self.classes], vec![test; self.classes])),
            ClassCounts::Uneven { train, test } => Some((train.to_vec(), test.to_vec())),
            ClassCounts::Unknown => None,
        }
    }
}

/// All data sets that we know by name.
pub fn all() -> &'static [KnownDataset] {
    ALL
}

/// Finds the data set of this name; the error offers the nearest name.
pub fn find(name: &str) -> Result<&'static KnownDataset> {
    ALL.iter().find(|set| set.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|set| set.name).collect();
        let cure = format!("known by name are {}", names.join(", "));
        Error::unknown("data set", name, names, cure)
    })
}

/// Images per class (train, test) at the official source of the data set of this name, if there is
/// such a set and such a number.
pub fn official_counts(name: &str) -> Option<(Vec<u32>, Vec<u32>)> {
    ALL.iter().find(|set| set.name == name)?.counts()
}

const ALL: &[KnownDataset] = &[
    KnownDataset {
        name: "mnist",
        title: "MNIST",
        classes: 10,
        train: 60_000,
        val: 0,
        test: 10_000,
        class_counts: ClassCounts::Uneven {
            train: &[5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
            test: &[980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
        },
        licence: "the makers state none (often given as CC BY-SA 3.0)",
        about: "handwritten digits, grey, 28x28",
        files: MNIST_FILES,
    },
    KnownDataset {
        name: "fashion-mnist",
        title: "Fashion-MNIST",
        classes: 10,
        train: 60_000,
        val: 0,
        test: 10_000,
        class_counts: ClassCounts::Even { train: 6000, test: 1000 },
        licence: "MIT, Zalando SE",
        about: "articles of clothing, grey, 28x28",
        files: FASHION_FILES,
    },
    KnownDataset {
        name: "cifar10",
        title: "CIFAR-10",
        classes: 10,
        train: 50_000,
        val: 0,
        test: 10_000,
        class_counts: ClassCounts::Even { train: 5000, test: 1000 },
        licence: "the makers state none (they ask to be cited)",
        about: "photographs of animals and vehicles, colour, 32x32",
        files: CIFAR10_FILES,
    },
    KnownDataset {
        name: "cifar100",
        title: "CIFAR-100",
        classes: 100,
        train: 50_000,
        val: 0,
        test: 10_000,
        class_counts: ClassCounts::Even { train: 500, test: 100 },
        licence: "the makers state none (they ask to be cited)",
        about: "photographs of a hundred kinds of things, colour, 32x32",
        files: CIFAR100_FILES,
    },
    KnownDataset {
        name: "svhn",
        title: "SVHN (cropped digits)",
        classes: 10,
        train: 73_257,
        val: 0,
        test: 26_032,
        class_counts: ClassCounts::Uneven {
            train: &[4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659],
            test: &[1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595],
        },
        licence: "non-commercial use only",
        about: "digits of house numbers, colour, 32x32",
        files: SVHN_FILES,
    },
    KnownDataset {
        name: "dtd",
        title: "Describable Textures (DTD 1.0.1)",
        classes: 47,
        train: 3760,
        val: 0,
        test: 1880,
        class_counts: ClassCounts::Even { train: 80, test: 40 },
        licence: "research use only",
        about: "photographs of textures, colour, of many sizes; train = its train1 and val1, test = its test1",
        files: DTD_FILES,
    },
    KnownDataset {
        name: "omniglot",
        title: "Omniglot",
        classes: 1623,
        train: 32_460,
        val: 0,
        test: 0,
        class_counts: ClassCounts::Even { train: 20, test: 0 },
        licence: "MIT",
        about: "characters of 50 alphabets drawn by 20 people, black and white, 105x105; no official split",
        files: OMNIGLOT_FILES,
    },
    KnownDataset {
        name: "dtd10",
        title: "ten classes of DTD",
        classes: 10,
        train: 800,
        val: 0,
        test: 400,
        class_counts: ClassCounts::Even { train: 80, test: 40 },
        licence: "research use only",
        about: "a stand-in for DTD at 32x32 that is published nowhere; point --data-dir or \
                $LMC_DATA to a folder that has it, or get 'dtd'",
        files: &[],
    },
    KnownDataset {
        name: "tiny-imagenet",
        title: "a hundred classes of Tiny ImageNet",
        classes: 100,
        train: 12_191,
        val: 0,
        test: 5000,
        class_counts: ClassCounts::Unknown,
        licence: "non-commercial research use only (ImageNet)",
        about: "a stand-in for CIFAR-100 at 32x32 that is published nowhere; point --data-dir \
                or $LMC_DATA to a folder that has it, or get 'cifar100'",
        files: &[],
    },
    KnownDataset {
        name: "mini-imagenet",
        title: "miniImageNet",
        classes: 100,
        train: 38_400,
        val: 9600,
        test: 12_000,
        class_counts: ClassCounts::Unknown,
        licence: "non-commercial research use only (ImageNet)",
        about: "its makers publish lists of ImageNet pictures, not the pictures; put class folders under train, \
                val and test into the folder mini-imagenet of the data folder",
        files: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_counts_add_up_to_the_official_totals() {
        for set in all() {
            if let Some((train, test)) = official_counts(set.name) {
                assert_eq!((train.len(), test.len()), (set.classes, set.classes), "{}", set.name);
                assert_eq!(train.iter().sum::<u32>(), set.train, "{}", set.name);
                assert_eq!(test.iter().sum::<u32>(), set.test, "{}", set.name);
            }
        }
        assert_eq!(official_counts("svhn").unwrap().0[1], 13_861);
        assert_eq!(official_counts("no-such-set"), None);
    }

    #[test]
    fn every_file_has_a_whole_checksum_and_addresses_that_end_in_its_name() {
        let mut checksums = std::collections::HashSet::new();
        for set in all() {
            for file in set.files {
                assert_eq!(file.sha256.len(), 64, "{}", file.name);
                assert!(file.sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
                assert!(checksums.insert(file.sha256), "{} has the checksum of another file", file.name);
                assert!(file.bytes > 0 && !file.addresses.is_empty());
                assert!(file.addresses.iter().all(|a| a.starts_with("http") && a.ends_with(file.name)));
            }
        }
        assert_eq!(find("mnist").unwrap().download_bytes(), 9_912_422 + 28_881 + 1_648_877 + 4_542);
    }

    #[test]
    fn a_misspelt_name_gets_the_nearest_and_the_list() {
        let error = find("fashion-minst").unwrap_err().to_string();
        assert!(error.contains("did you mean 'fashion-mnist'?") && error.contains("omniglot"), "{error}");
        assert!(!error.contains('\n'));
        assert_eq!(find("dtd10").unwrap().classes, 10);
    }
}
