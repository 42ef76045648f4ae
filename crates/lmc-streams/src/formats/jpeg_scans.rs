//! Whether the coded pixels of a JPEG file are all there. A file that was cut and given an end mark again looks whole by
//! its markers, and the decoder fills what is missing with grey and says nothing. So its codes are walked through here,
//! without making pixels of them: each scan must have one for each of its blocks.
//!
//! What is not known here (arithmetic coding, tables that are elsewhere) is left to the decoder.

use std::ops::RangeInclusive;

/// Side of a block.
const SIDE: usize = 8;

/// Coefficients of a block.
const COEFFICIENTS: u8 = 64;

/// Why a walk ended before the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// Codes are missing, or are none.
    Damaged,
    /// This is not for us to judge.
    Unknown,
}

/// Whether codes of pixels are missing. The markers have been looked at, and the decoder has accepted the size.
pub(super) fn lacks_codes(jpeg: &[u8]) -> bool {
    Walk::default().all(jpeg) == Err(Stop::Damaged)
}

/// What the segments so far have said.
#[derive(Debug, Default)]
struct Walk {
    width: usize,
    height: usize,
    progressive: bool,
    components: Vec<Component>,
    /// Codes of the first coefficients, and of the others.
    tables: [[Option<Codes>; 4]; 2],
    /// MCUs between two restarts; 0 for none.
    restart: usize,
}

#[derive(Debug)]
struct Component {
    name: u8,
    /// Blocks of an MCU in each direction.
    across: usize,
    down: usize,
    /// Bits that are still to come, for each coefficient; `None` as long as no scan had it.
    missing_bits: [Option<u8>; COEFFICIENTS as usize],
    /// For each block the coefficients that are not zero, a bit each; empty unless it is progressive.
    set: Vec<u64>,
}

/// A component in a scan.
struct Part {
    component: usize,
    first: usize,
    others: usize,
}

/// What a scan says of the coefficients.
struct Scan {
    coefficients: RangeInclusive<u8>,
    /// Whether it gives one more bit of coefficients that an earlier scan began.
    refines: bool,
    missing_bits: u8,
}

impl Walk {
    fn all(&mut self, jpeg: &[u8]) -> Result<(), Stop> {
        let mut at = 2; // behind the start marker
        loop {
            if *jpeg.get(at).ok_or(Stop::Damaged)? != 0xff {
                at += 1; // filling between segments, which decoders skip too
                continue;
            }
            let kind = *jpeg.get(at + 1).ok_or(Stop::Damaged)?;
            match kind {
                0 | 0xff => at += 1,
                0x01 | 0xd0..=0xd8 => at += 2,
                0xd9 => return self.end(),
                _ => {
                    let length = jpeg.get(at + 2..at + 4).ok_or(Stop::Damaged)?;
                    let end = at + 2 + usize::from(u16::from_be_bytes([length[0], length[1]]));
                    let segment = jpeg.get(at + 4..end).ok_or(Stop::Damaged)?;
                    at = end;
                    match kind {
                        0xc0..=0xc2 => self.frame(segment, kind == 0xc2)?,
                        0xc4 => self.code_tables(segment)?,
                        // Lossless, hierarchical, arithmetic; the number of lines behind the first scan.
                        0xc3 | 0xc5..=0xcf | 0xdc => return Err(Stop::Unknown),
                        0xdd => self.restart = usize::from(word(segment, 0)?),
                        0xda => at += self.scan(segment, &jpeg[end..])?,
                        _ => {}
                    }
                }
            }
        }
    }

    /// Whether each component had its first coefficients, and every coefficient that was begun all its bits.
    fn end(&self) -> Result<(), Stop> {
        let whole = |component: &Component| {
            component.missing_bits[0].is_some()
                && component.missing_bits.iter().all(|bits| bits.is_none_or(|bits| bits == 0))
        };
        if self.components.iter().all(whole) { Ok(()) } else { Err(Stop::Damaged) }
    }

    fn frame(&mut self, segment: &[u8], progressive: bool) -> Result<(), Stop> {
        (self.height, self.width) = (word(segment, 1)?.into(), word(segment, 3)?.into());
        if !self.components.is_empty() || self.height == 0 || self.width == 0 || byte(segment, 0)? != 8 {
            return Err(Stop::Unknown);
        }
        self.progressive = progressive;
        for number in 0..usize::from(byte(segment, 5)?) {
            let (name, sampling) = (byte(segment, 6 + 3 * number)?, byte(segment, 7 + 3 * number)?);
            let (across, down) = (usize::from(sampling >> 4), usize::from(sampling & 15));
            if !(1..=4).contains(&across) || !(1..=4).contains(&down) {
                return Err(Stop::Unknown);
            }
            let missing_bits = [None; COEFFICIENTS as usize];
            self.components.push(Component { name, across, down, missing_bits, set: Vec::new() });
        }
        if progressive {
            for number in 0..self.components.len() {
                let (across, down) = self.blocks(number);
                self.components[number].set = vec![0; across * down];
            }
        }
        Ok(())
    }

    /// Blocks of a component across and down, in a scan of its own.
    fn blocks(&self, number: usize) -> (usize, usize) {
        let (most_across, most_down) = self.most();
        let component = &self.components[number];
        let blocks = |pixels: usize, own: usize, most: usize| (pixels * own).div_ceil(most).div_ceil(SIDE);
        (blocks(self.width, component.across, most_across), blocks(self.height, component.down, most_down))
    }

    fn most(&self) -> (usize, usize) {
        let most = |side: fn(&Component) -> usize| self.components.iter().map(side).max().unwrap_or(1);
        (most(|component| component.across), most(|component| component.down))
    }

    fn code_tables(&mut self, mut segment: &[u8]) -> Result<(), Stop> {
        while let Some((&which, rest)) = segment.split_first() {
            let counts = rest.get(..16).ok_or(Stop::Unknown)?;
            let total = counts.iter().map(|&count| usize::from(count)).sum::<usize>();
            let values = rest.get(16..16 + total).ok_or(Stop::Unknown)?;
            let kind = self.tables.get_mut(usize::from(which >> 4)).ok_or(Stop::Unknown)?;
            let table = kind.get_mut(usize::from(which & 15)).ok_or(Stop::Unknown)?;
            *table = Some(Codes::new(counts, values)?);
            segment = &rest[16 + total..];
        }
        Ok(())
    }

    /// Walks through a scan; the number of bytes until the next marker that does not belong to it.
    fn scan(&mut self, header: &[u8], data: &[u8]) -> Result<usize, Stop> {
        let count = usize::from(byte(header, 0)?);
        let mut parts = Vec::new();
        for number in 0..count {
            let (name, tables) = (byte(header, 1 + 2 * number)?, byte(header, 2 + 2 * number)?);
            let found = self.components.iter().position(|component| component.name == name);
            let (first, others) = (usize::from(tables >> 4), usize::from(tables & 15));
            parts.push(Part { component: found.ok_or(Stop::Unknown)?, first, others });
        }
        let at = 1 + 2 * count;
        let (from, to, bits) = (byte(header, at)?, byte(header, at + 1)?, byte(header, at + 2)?);
        let scan = match self.progressive {
            true => Scan { coefficients: from..=to, refines: bits >> 4 != 0, missing_bits: bits & 15 },
            false => Scan { coefficients: 0..=COEFFICIENTS - 1, refines: false, missing_bits: 0 },
        };
        let mixes = self.progressive && from == 0 && to != 0;
        if from > to || to >= COEFFICIENTS || mixes || parts.is_empty() || (from > 0 && parts.len() > 1) {
            return Err(Stop::Unknown);
        }
        for part in &parts {
            let known = &mut self.components[part.component].missing_bits;
            known[usize::from(*scan.coefficients.start())..=usize::from(*scan.coefficients.end())]
                .fill(Some(scan.missing_bits));
        }

        let (across, down) = match &parts[..] {
            [part] => self.blocks(part.component),
            _ => {
                let most = self.most();
                (self.width.div_ceil(SIDE * most.0), self.height.div_ceil(SIDE * most.1))
            }
        };
        let mut bits = Bits::new(data);
        let mut run = 0;
        for mcu in 0..across * down {
            if self.restart != 0 && mcu != 0 && mcu % self.restart == 0 {
                bits.restart()?;
                run = 0;
            }
            for part in &parts {
                let component = &mut self.components[part.component];
                let tables = [&self.tables[0], &self.tables[1]];
                let [first, others] = [&tables[0].get(part.first), &tables[1].get(part.others)];
                let codes = [first, others].map(|codes| codes.and_then(Option::as_ref));
                if parts.len() > 1 {
                    for _ in 0..component.across * component.down {
                        block(&scan, codes, &mut bits, &mut 0, &mut run)?;
                    }
                } else {
                    let nothing = &mut 0;
                    block(&scan, codes, &mut bits, component.set.get_mut(mcu).unwrap_or(nothing), &mut run)?;
                }
            }
        }
        Ok(bits.end())
    }
}

/// Walks through the codes of a block. `set` are its coefficients that are not zero, `run` counts blocks without codes.
fn block(
    scan: &Scan,
    codes: [Option<&Codes>; 2],
    bits: &mut Bits<'_>,
    set: &mut u64,
    run: &mut u32,
) -> Result<(), Stop> {
    let (mut at, last) = (*scan.coefficients.start(), *scan.coefficients.end());
    if at == 0 {
        if scan.refines {
            bits.skip(1)?;
        } else {
            match bits.code(codes[0])? {
                length @ 0..=15 => bits.skip(length)?,
                _ => return Err(Stop::Damaged),
            }
        }
        at = 1;
    }
    let is_set = |set: &u64, at: u8| set >> at & 1 == 1;
    while *run == 0 && at <= last {
        let code = bits.code(codes[1])?;
        let (mut zeros, length) = (code >> 4, code & 15);
        if length == 0 && zeros < 15 {
            *run = (1 << zeros) + bits.take(zeros)?;
            break;
        }
        if scan.refines {
            // The bits of what is set already stand between; only what is not set yet counts as zeros.
            bits.skip(length.min(1))?;
            while at <= last && (zeros > 0 || is_set(set, at)) {
                match is_set(set, at) {
                    true => bits.skip(1)?,
                    false => zeros -= 1,
                }
                at += 1;
            }
        } else {
            bits.skip(length)?;
            at += zeros;
        }
        if length != 0 {
            if at > last {
                return Err(Stop::Damaged);
            }
            *set |= 1 << at;
        }
        at += 1;
    }
    if *run > 0 {
        if scan.refines {
            for at in at..=last {
                if is_set(set, at) {
                    bits.skip(1)?;
                }
            }
        }
        *run -= 1;
    }
    Ok(())
}

/// The codes of a table.
#[derive(Debug)]
struct Codes {
    /// Length and value of the code that these bits begin with; length 0 if it is longer or none.
    short: Box<[(u8, u8); 1 << Codes::SHORT]>,
    /// For each length: the first code that is too large, as the first 16 bits, and what to add to a code for its index.
    lengths: [(u32, i32); 16],
    values: Vec<u8>,
}

impl Codes {
    const SHORT: u8 = 9;

    fn new(counts: &[u8], values: &[u8]) -> Result<Self, Stop> {
        let mut short = Box::new([(0, 0); 1 << Self::SHORT]);
        let mut lengths = [(0, 0); 16];
        let (mut code, mut index) = (0_u32, 0_usize);
        for (number, &count) in counts.iter().enumerate() {
            let length = number as u8 + 1;
            lengths[number].1 = index as i32 - code as i32;
            for _ in 0..count {
                if code >= 1 << length {
                    return Err(Stop::Unknown);
                }
                if length <= Self::SHORT {
                    let (from, free) =
                        ((code << (Self::SHORT - length)) as usize, 1 << (Self::SHORT - length));
                    short[from..from + free].fill((length, values[index]));
                }
                (code, index) = (code + 1, index + 1);
            }
            lengths[number].0 = code << (16 - length);
            code <<= 1;
        }
        Ok(Self { short, lengths, values: values.to_vec() })
    }

    /// Length and value of the code that 16 bits begin with.
    fn find(&self, bits: u32) -> Option<(u8, u8)> {
        match self.short[(bits >> (16 - Self::SHORT)) as usize] {
            (0, _) => {
                let length =
                    (Self::SHORT + 1..=16).find(|&length| bits < self.lengths[usize::from(length) - 1].0)?;
                let code = (bits >> (16 - length)) as i32;
                let index = usize::try_from(code + self.lengths[usize::from(length) - 1].1).ok()?;
                Some((length, *self.values.get(index)?))
            }
            found => Some(found),
        }
    }
}

/// The bits of a scan, up to the next marker.
struct Bits<'a> {
    data: &'a [u8],
    at: usize,
    waiting: u64,
    count: u8,
}

impl<'a> Bits<'a> {
    fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0, waiting: 0, count: 0 }
    }

    /// Takes whole bytes until there are more bits than anybody asks for, or a marker.
    fn fill(&mut self) {
        while self.count <= 56 {
            let (byte, length) = match (self.data.get(self.at), self.data.get(self.at + 1)) {
                (Some(0xff), Some(0)) => (0xff, 2),
                (Some(0xff), _) | (None, _) => return,
                (Some(&byte), _) => (byte, 1),
            };
            self.waiting = self.waiting << 8 | u64::from(byte);
            (self.at, self.count) = (self.at + length, self.count + 8);
        }
    }

    fn take(&mut self, length: u8) -> Result<u32, Stop> {
        if self.count < length {
            self.fill();
        }
        self.count = self.count.checked_sub(length).ok_or(Stop::Damaged)?;
        Ok((self.waiting >> self.count) as u32 & ((1 << length) - 1))
    }

    fn skip(&mut self, length: u8) -> Result<(), Stop> {
        self.take(length).map(drop)
    }

    fn code(&mut self, codes: Option<&Codes>) -> Result<u8, Stop> {
        if self.count < 16 {
            self.fill();
        }
        // Behind the end there are zeros; a code that needs them is missing.
        let next = match self.count {
            16.. => self.waiting >> (self.count - 16),
            count => self.waiting << (16 - count),
        };
        let (length, value) = codes.ok_or(Stop::Unknown)?.find(next as u32 & 0xffff).ok_or(Stop::Damaged)?;
        self.skip(length)?;
        Ok(value)
    }

    /// Goes on behind the next restart marker. Bits that are left over are filling.
    fn restart(&mut self) -> Result<(), Stop> {
        let at = self.end();
        match self.data.get(at + 1) {
            Some(0xd0..=0xd7) => {
                *self = Self { data: self.data, at: at + 2, waiting: 0, count: 0 };
                Ok(())
            }
            _ => Err(Stop::Damaged),
        }
    }

    /// Where the next marker is; none is inside of what has been read.
    fn end(&self) -> usize {
        let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xff);
        let rest = &self.data[self.at..];
        self.at + rest.windows(2).position(is_marker).unwrap_or(rest.len())
    }
}

fn byte(segment: &[u8], at: usize) -> Result<u8, Stop> {
    segment.get(at).copied().ok_or(Stop::Unknown)
}

fn word(segment: &[u8], at: usize) -> Result<u16, Stop> {
    Ok(u16::from_be_bytes([byte(segment, at)?, byte(segment, at + 1)?]))
}

#[cfg(test)]
mod tests {
    use image::ColorType;
    use image::codecs::jpeg::JpegEncoder;
    use proptest::prelude::*;

    use super::*;

    /// Grey noise of 24 x 16 pixels: progressive, coefficients refined bit by bit, as libjpeg writes it.
    const PROGRESSIVE: &str = "
        ffd8ffe000104a46494600010100000100010000ffdb0043001b12141714111b1716171e1c1b2028422b28252528513a3d304260
        5565645f555d5b6a7899816a7190735b5d85b586909ea3abadab6780bcc9baa6c799a8aba4ffc2000b080010001801011100ffc4
        00160001010100000000000000000000000000020001ffda00080101000000014720ff00ffc40018100003010100000000000000
        00000000000001110231ffda0008010100010502cb153a8448ff00ffc4001b100001040300000000000000000000000000011021
        31113281ffda0008010100063f025a2b86b6441856ffc4001c1001000202030100000000000000000000010011214131617191ff
        da0008010100013f213cc41c3aa259560e9ec43165c2f51e88c975a8ecce9f2686b26ac9ffda00080101000000101fffc4001e10
        0100020105010100000000000000000001112131004151718161c1ffda0008010100013f1025d6405f25eeb0fdf06098599d98e5
        0542d7d5768d0424654640c4365d20f5ce582177a0370d6d1f9656b785a22824cc999a31cbda05ef30b5b18e9e00f3ffd9";

    fn progressive() -> Vec<u8> {
        let digits: Vec<u8> = PROGRESSIVE.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits.chunks(2).map(|pair| str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    }

    /// Noise of 37 x 21 pixels in one go.
    fn baseline(colour: ColorType, quality: u8) -> Vec<u8> {
        let count = 37 * 21 * usize::from(colour.channel_count());
        let pixels: Vec<u8> = (0..count).map(|at| (at * at * 31 / 7 % 256) as u8).collect();
        let mut bytes = Vec::new();
        JpegEncoder::new_with_quality(&mut bytes, quality).encode(&pixels, 37, 21, colour.into()).unwrap();
        bytes
    }

    /// A grey picture of 8 x 24 pixels, three blocks of one bit each with a restart behind each; these many of its parts.
    fn restarts(parts: usize) -> Vec<u8> {
        let head: &[&[u8]] = &[
            &[0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0, 24, 0, 8, 1, 1, 0x11, 0],
            // Two tables with one code of one bit: nothing (the difference is 0; the end of the block).
            &[0xff, 0xc4, 0, 20, 0, 1],
            &[0; 15],
            &[0],
            &[0xff, 0xc4, 0, 20, 0x10, 1],
            &[0; 15],
            &[0],
            &[0xff, 0xdd, 0, 4, 0, 1],
            &[0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0],
        ];
        let scan: &[&[u8]] = &[&[0x3f], &[0xff, 0xd0, 0x3f], &[0xff, 0xd1, 0x3f]];
        [head, &scan[..parts], &[&[0xff, 0xd9]]].concat().concat()
    }

    #[test]
    fn whole_files_lack_nothing() {
        assert!(!lacks_codes(&progressive()));
        for colour in [ColorType::L8, ColorType::Rgb8] {
            for quality in [5, 50, 100] {
                assert!(!lacks_codes(&baseline(colour, quality)));
            }
        }
        assert!(!lacks_codes(&restarts(3)));
    }

    #[test]
    fn files_that_were_cut_and_given_an_end_again_do() {
        for whole in [progressive(), baseline(ColorType::L8, 50), baseline(ColorType::Rgb8, 90)] {
            let scan = whole.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
            let from = scan + 2 + usize::from(u16::from_be_bytes([whole[scan + 2], whole[scan + 3]]));
            let cuts: Vec<usize> = (from..whole.len() - 2).collect();
            let found = |&&at: &&usize| lacks_codes(&[&whole[..at], &[0xff, 0xd9]].concat());
            let found = cuts.iter().filter(found).count();
            // Inside the tables between scans a cut makes other tables, which the decoder may judge.
            let most = if whole == progressive() { cuts.len() * 9 / 10 } else { cuts.len() };
            assert!(found >= most, "{found} of {}", cuts.len());
        }
        assert!(lacks_codes(&restarts(2)) && lacks_codes(&restarts(1)));
    }

    #[test]
    fn what_is_no_jpeg_is_left_to_others() {
        assert!(!lacks_codes(b"\xff\xd8\xff\xd9"));
        assert!(!lacks_codes(b"\xff\xd8\xff\xc9\0\x0bwords without end"));
    }

    proptest! {
        #[test]
        fn hostile_bytes_end(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8)) {
            for mut bytes in [progressive(), baseline(ColorType::Rgb8, 50)] {
                for (at, value) in &changes {
                    let at = at.index(bytes.len());
                    bytes[at] = *value;
                }
                lacks_codes(&bytes);
            }
        }
    }
}
