//! Parquet files whose headers may lie: no allocation that the bytes of the file do not justify.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};

/// A parquet file that is open.
pub(super) type ParquetReader = SerializedFileReader<BoundedFile>;

/// Reads the footer of a file.
pub(super) fn open(file: File) -> Result<ParquetReader> {
    let length = file.metadata()?.len();
    SerializedFileReader::new(BoundedFile { file, length })
}

/// A reader of one column of one row group.
pub(super) fn column<T: DataType>(
    reader: &ParquetReader,
    row_group: usize,
    column: usize,
) -> Result<ColumnReaderImpl<T>> {
    let descriptor = reader.metadata().file_metadata().schema_descr().column(column);
    let pages = reader.get_row_group(row_group)?.get_column_page_reader(column)?;
    Ok(ColumnReaderImpl::new(descriptor, Box::new(CheckedPages { pages })))
}

/// A file that refuses to read beyond its end before making room for what would be read.
pub(super) struct BoundedFile {
    file: File,
    pub(super) length: u64,
}

impl Length for BoundedFile {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for BoundedFile {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        let mut reader = BufReader::with_capacity(1 << 12, file);
        // The parquet reader comes here for page headers (and for the 8 bytes at the end of the file, which
        // can never look like one).
        if let Some((unpacked, packed)) = page_sizes(reader.fill_buf()?)
            && unpacked > (64 << 20)
            && unpacked / 64 > packed
        {
            return Err(ParquetError::General(format!(
                "a page claims to unpack {packed} bytes to {unpacked}"
            )));
        }
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond the end")));
        }
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        let mut buffer = Vec::with_capacity(length);
        file.take(length as u64).read_to_end(&mut buffer)?;
        if buffer.len() != length {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond the end")));
        }
        Ok(buffer.into())
    }
}

/// The unpacked and packed size in a page header: the second and third of its fields, all three of which are
/// Thrift compact integers (0x15, then a zigzag varint).
fn page_sizes(header: &[u8]) -> Option<(u64, u64)> {
    let mut bytes = header.iter().copied();
    let mut field = || {
        (bytes.next()? == 0x15).then_some(())?;
        let mut value = 0_u64;
        for shift in (0..35).step_by(7) {
            let byte = bytes.next()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value / 2);
            }
        }
        None
    };
    field()?;
    Some((field()?, field()?))
}

/// Pages whose dictionaries have at most as many values as bytes. The decoder makes room for as many values
/// as the header says, be it 2 billion of 32 bytes.
struct CheckedPages {
    pages: Box<dyn PageReader>,
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        match &page {
            Some(Page::DictionaryPage { buf, num_values, .. }) if *num_values as usize > buf.len() => {
                let size = buf.len();
                Err(ParquetError::General(format!("a dictionary claims {num_values} values in {size} bytes")))
            }
            _ => Ok(page),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_a_header_by_hand() {
        // Type 0; unpacked 100 = zigzag 200 = 0xc8 0x01; packed 3 = zigzag 6.
        assert_eq!(page_sizes(&[0x15, 0, 0x15, 0xc8, 1, 0x15, 6, 0x2c]), Some((100, 3)));
        assert_eq!(page_sizes(&[0x15, 0, 0x15, 0xc8]), None);
        assert_eq!(page_sizes(b"\x15\0\0\0PAR1"), None);
        assert_eq!(page_sizes(&[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn a_page_that_claims_two_gigabytes_is_refused() {
        use std::io::Write;
        let open = |header: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(header).unwrap();
            BoundedFile { file, length: header.len() as u64 }
        };
        // 2^31 - 1 = zigzag 2^32 - 2, from 3 bytes.
        let lie = open(&[0x15, 0, 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, 6, 0x2c]);
        assert!(lie.get_read(0).unwrap_err().to_string().contains("unpack 3 bytes to 2147483647"));
        assert!(lie.get_bytes(4, 8).unwrap_err().to_string().contains("beyond the end"));
        assert!(lie.get_bytes(u64::MAX, 2).is_err());
        assert!(open(&[0x15, 0, 0x15, 0xc8, 1, 0x15, 6, 0x2c]).get_read(0).is_ok());
    }

    #[test]
    fn a_dictionary_with_more_values_than_bytes_is_refused() {
        struct One(Option<Page>);
        impl Iterator for One {
            type Item = Result<Page>;
            fn next(&mut self) -> Option<Self::Item> {
                self.0.take().map(Ok)
            }
        }
        impl PageReader for One {
            fn get_next_page(&mut self) -> Result<Option<Page>> {
                Ok(self.0.take())
            }
            fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
                Ok(None)
            }
            fn skip_next_page(&mut self) -> Result<()> {
                Ok(())
            }
        }
        let page = |num_values| {
            let encoding = parquet::basic::Encoding::PLAIN;
            let page =
                Page::DictionaryPage { buf: vec![0; 16].into(), num_values, encoding, is_sorted: false };
            CheckedPages { pages: Box::new(One(Some(page))) }.get_next_page()
        };
        assert!(page(4).is_ok());
        assert!(page(2_000_000_000).err().unwrap().to_string().contains("2000000000 values in 16 bytes"));
    }
}
