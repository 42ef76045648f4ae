//! The files in which the makers publish the known data sets: addresses, sizes and checksums.

use super::known::{SourceFile, Unpack};

/// The file `$name` below each of the bases.
macro_rules! file {
    ($name:literal, $bytes:literal, $sha256:literal, [$($base:literal),+]) => {
        SourceFile {
            name: $name,
            addresses: &[$(concat!($base, $name)),+],
            sha256: $sha256,
            bytes: $bytes,
            unpack: Unpack::Keep,
        }
    };
}

// The makers' own MNIST page no longer serves its files reliably, so here the mirrors come first.
macro_rules! mnist {
    ($name:literal, $bytes:literal, $sha256:literal) => {
        file!(
            $name,
            $bytes,
            $sha256,
            [
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
                "http://yann.lecun.com/exdb/mnist/"
            ]
        )
    };
}

macro_rules! fashion {
    ($name:literal, $bytes:literal, $sha256:literal) => {
        file!(
            $name,
            $bytes,
            $sha256,
            [
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"
            ]
        )
    };
}

macro_rules! svhn {
    ($name:literal, $bytes:literal, $sha256:literal) => {
        file!($name, $bytes, $sha256, ["http://ufldl.stanford.edu/housenumbers/"])
    };
}

macro_rules! omniglot {
    ($name:literal, $bytes:literal, $sha256:literal) => {
        file!(
            $name,
            $bytes,
            $sha256,
            [
                "https://github.com/brendenlake/omniglot/raw/master/python/",
                "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"
            ]
        )
    };
}

#[rustfmt::skip]
pub(super) const MNIST_FILES: &[SourceFile] = &[
    mnist!("train-images-idx3-ubyte.gz", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    mnist!("train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    mnist!("t10k-images-idx3-ubyte.gz", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    mnist!("t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
];

#[rustfmt::skip]
pub(super) const FASHION_FILES: &[SourceFile] = &[
    fashion!("train-images-idx3-ubyte.gz", 26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
    fashion!("train-labels-idx1-ubyte.gz", 29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
    fashion!("t10k-images-idx3-ubyte.gz", 4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
    fashion!("t10k-labels-idx1-ubyte.gz", 5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
];

pub(super) const CIFAR10_FILES: &[SourceFile] = &[file!(
    "cifar-10-binary.tar.gz",
    170_052_171,
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    [
        "https://www.cs.toronto.edu/~kriz/",
        "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/"
    ]
)];

pub(super) const CIFAR100_FILES: &[SourceFile] = &[file!(
    "cifar-100-binary.tar.gz",
    168_513_733,
    "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
    ["https://www.cs.toronto.edu/~kriz/"]
)];

#[rustfmt::skip]
pub(super) const SVHN_FILES: &[SourceFile] = &[
    svhn!("train_32x32.mat", 182_040_794, "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"),
    svhn!("test_32x32.mat", 64_275_384, "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
];

// Unpacked, because its 5,640 photographs are read one by one and in the order of its lists.
pub(super) const DTD_FILES: &[SourceFile] = &[SourceFile {
    unpack: Unpack::TarGz { folder: "dtd", limit: 2_000_000_000 },
    ..file!(
        "dtd-r1.0.1.tar.gz",
        625_239_812,
        "e42855a52a4950a3b59612834602aa253914755c95b0cff9ead6d07395f8e205",
        ["https://www.robots.ox.ac.uk/~vgg/data/dtd/download/", "https://thor.robots.ox.ac.uk/dtd/"]
    )
}];

#[rustfmt::skip]
pub(super) const OMNIGLOT_FILES: &[SourceFile] = &[
    omniglot!("images_background.zip", 9_464_212, "ad41ab679c8b5d90b271ef46be6987cc81211774a695c29dcc5367b2b26ee640"),
    omniglot!("images_evaluation.zip", 6_462_886, "1f61a8f3366785b057fc117d9228e78a16e3d976c8953b2a10fcc74cf0609cee"),
];
