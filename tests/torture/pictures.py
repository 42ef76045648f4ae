"""Tiny pictures and data sets, written without any library."""

import os
import random
import struct
import zlib


def png(width, height, pixels, claimed=None):
    """The bytes of an RGB picture; `claimed` is the size that its header lies about."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + pixels[row * width * 3 : (row + 1) * width * 3] for row in range(height))
    header = struct.pack(">IIBBBBB", *(claimed or (width, height)), 8, 2, 0, 0, 0)
    data = zlib.compress(rows, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def class_folder(folder, seed, shade, count, side=16):
    """A folder of noisy pictures of one shade."""
    os.makedirs(folder)
    draw = random.Random(seed)
    for number in range(count):
        pixels = bytes((shade + draw.randrange(40)) % 256 for _ in range(side * side * 3))
        with open(os.path.join(folder, f"{number}.png"), "wb") as file:
            file.write(png(side, side, pixels))


def data_set(folder, seed, classes=3, count=12):
    """A folder of class folders."""
    for number in range(classes):
        shade = (70 * number + 23 * seed) % 256
        class_folder(os.path.join(folder, f"class{number}"), 100 * seed + number, shade, count)


# A whole grey JPEG of 48 x 48 noisy pixels, two thirds of it pixels.
JPEG = bytes.fromhex(
    """
    ffd8ffe000104a46494600010200000100010000ffc0000b080030003001011100ffdb004300281c1e231e19282321232d2b
    28303c64413c37373c7b585d4964918099968f808c8aa0b4e6c3a0aadaad8a8cc8ffcbdaeef5ffffff9bc1fffffffaffe6fd
    fff8ffc4001f0000010501010101010100000000000000000102030405060708090a0bffc400b51000020103030204030505
    04040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a
    25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a8384858687
    88898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2
    e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffda0008010100003f0069c9cfcc0855c1561fc3eb8edd07e8339a7721e34439
    257e5cb1dbc7000cf614e46133480104f51c77ec47e5f9d2643f0eaa4866cb2608e463273c76f4ed4d53fbb5503613823827
    20f4ebc6067bd08021c82c7682ebb8751ee38c743f98f4a69d92c6ca5b69249e99cf1d7a8cf3c7f2a7c926137c4b8c7de24e
    4360638f720e7fc69adbd176aa865e305b6e3a7e9f9d3946c76e090182b31c10b9ea4771cd35dc46e0ed190c06338c9e7f96
    3d3fa52955721f0b1e149e100c7a74e9c1ebeb4bfc4c1a4385182705391d3f1c7afa7b669bb4aa3ca0b1504855c6083df693
    d39a7333862a59d8f1f2938041ea319faf3edf8d2190becc3942cc481938233bbf3fc291654f2846efb411d3b0cf4e0f51c7
    3f5fc693748f22a2653e6dc5b0391ee3fcf7f4a5de610d9c27cc7a8219ff00fd79fe5e94e52ac54fdc54279ce467d49e3d38
    39a1964c10cdb5ba838e7fafb7141923dbf3074403683bb8e9ef938e4638fe7412bb18365ba05f9b2bc1e7a0fa76fa6291cb
    9806d2490465d5bdf3c8fa60d498c30dedb76924fcc7e51f80e3a1ff001a8b6ed72db9415e54f6619c0e07f4e7a0c52b248c
    43a7f0e0ee67e831c1ebc753f952471b3962b175620e30a73d8673d3a52990b140c15d76e38e00038c7b7739f7e69d1c877b
    b93f39f99539008c77f5c8fcbad1108ce5d982c272533cf73dbf1ff0a595b72ef468d9b3c923d783c8e9d0e7ea73db31b109
    91c305e06070719e3dba9f6fae29e30bf2041bb2015079e71ea7a1c73fca9b1f31008f87db8f947ccc33d07a0f5f4fc2a327
    c9429960800c7cc072579faf5f6affd9
    """
)


def cut_jpeg(share):
    """The JPEG with only a share of its coded pixels: the header stays whole."""
    scan = JPEG.index(b"\xff\xda") + 10
    return JPEG[: scan + int((len(JPEG) - 2 - scan) * share)]
