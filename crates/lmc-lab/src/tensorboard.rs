//! Event files for TensorBoard: records with checksums, each of which is a protocol buffer with scalars.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use lmc_streams::{Error, Result};

/// An event file that is being written.
#[derive(Debug)]
pub struct TensorBoard {
    file: File,
    path: PathBuf,
}

impl TensorBoard {
    /// Deletes a folder and starts its one event file.
    pub fn replace(folder: &Path) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(Error::io("remove", folder))?;
        }
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        // TensorBoard takes every file with "tfevents" in its name.
        let path = folder.join(format!("events.out.tfevents.{:010}.lmc", seconds() as u64));
        let file = File::create(&path).map_err(Error::io("write", &path))?;
        let mut board = Self { file, path };
        let mut event = Message::default();
        event.double(1, seconds());
        event.bytes(3, b"brain.Event:2");
        board.record(&event.0)?;
        Ok(board)
    }

    /// Writes the scalars of one step.
    pub fn write(&mut self, step: u64, scalars: &[(String, f64)]) -> Result<()> {
        let mut summary = Message::default();
        for (tag, value) in scalars {
            let mut scalar = Message::default();
            scalar.bytes(1, tag.as_bytes());
            scalar.float(2, *value as f32);
            summary.bytes(1, &scalar.0);
        }
        let mut event = Message::default();
        event.double(1, seconds());
        event.number(2, step);
        event.bytes(5, &summary.0);
        self.record(&event.0)
    }

    /// Writes a record: length, checksum of the length, content, checksum of the content.
    fn record(&mut self, content: &[u8]) -> Result<()> {
        let length = (content.len() as u64).to_le_bytes();
        let mut bytes = Vec::with_capacity(content.len() + 16);
        bytes.extend(length);
        bytes.extend(masked(crc32c(&length)).to_le_bytes());
        bytes.extend(content);
        bytes.extend(masked(crc32c(content)).to_le_bytes());
        self.file.write_all(&bytes).map_err(Error::io("write", &self.path))
    }
}

fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// A protocol buffer under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn key(&mut self, field: u64, kind: u64) {
        self.varint(field << 3 | kind);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.key(field, 0);
        self.varint(value);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    fn float(&mut self, field: u64, value: f32) {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
    }
}

/// Computes the CRC-32C checksum bit by bit: a few hundred bytes per epoch need no tables.
fn crc32c(bytes: &[u8]) -> u32 {
    const REVERSED: u32 = 0x82F6_3B78;
    let fold = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { REVERSED } else { 0 })
    };
    !bytes.iter().fold(!0, fold)
}

/// Masks a checksum as the record format wants it: rotated, and shifted by a constant.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xA282_EAD8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_checksums() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
    }

    #[test]
    fn a_scalar_by_hand() {
        let mut message = Message::default();
        message.number(2, 300);
        message.bytes(1, b"ab");
        message.float(2, 1.0);
        let expected = [0x10, 0xAC, 0x02, 0x0A, 2, b'a', b'b', 0x15, 0, 0, 0x80, 0x3F];
        assert_eq!(message.0, expected);
    }

    #[test]
    fn records_are_framed() {
        let folder = tempfile::tempdir().unwrap();
        let mut board = TensorBoard::replace(&folder.path().join("board")).unwrap();
        board.write(3, &[("loss".into(), 0.5)]).unwrap();
        let bytes = fs::read(&board.path).unwrap();
        let mut at = 0;
        let mut records = 0;
        while at < bytes.len() {
            let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
            let checksum = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap());
            assert_eq!(checksum, masked(crc32c(&bytes[at..at + 8])));
            let content = &bytes[at + 12..at + 12 + length];
            let checksum = u32::from_le_bytes(bytes[at + 12 + length..at + 16 + length].try_into().unwrap());
            assert_eq!(checksum, masked(crc32c(content)));
            at += 16 + length;
            records += 1;
        }
        assert_eq!(records, 2);
    }
}
