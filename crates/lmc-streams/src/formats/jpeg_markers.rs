//! Whether a JPEG file is whole, by its markers: the decoder fills a missing part with grey and says nothing.
//!
//! A file is a row of segments: the byte FF, the kind, and mostly a length and content. The data of a scan follow
//! its SOS segment without a length; in them FF is escaped (FF 00) or restarts the decoder (FF D0 to FF D7). Phones
//! put thumbnails inside segments and films behind the end, so only this walk finds the right end marker.

const END: u8 = 0xd9;
const SCAN: u8 = 0xda;

/// Whether the file ends before its end marker. What is no JPEG at all is left to the decoder.
pub(super) fn is_cut_short(jpeg: &[u8]) -> bool {
    let mut at = 2; // behind the start marker
    loop {
        // A marker may be filled up with further FFs.
        while jpeg.get(at) == Some(&0xff) && jpeg.get(at + 1) == Some(&0xff) {
            at += 1;
        }
        let (kind, content) = match (jpeg.get(at), jpeg.get(at + 1)) {
            (Some(0xff), Some(&END)) => return false,
            (Some(0xff), Some(&kind)) => (kind, at + 2),
            (Some(0xff) | None, None) => return true,
            _ => return false, // not a marker
        };
        at = match kind {
            0x01 | 0xd0..=0xd8 => content,
            _ => match (jpeg.get(content), jpeg.get(content + 1)) {
                (Some(&high), Some(&low)) => content + usize::from(u16::from_be_bytes([high, low])),
                _ => return true,
            },
        };
        if kind == SCAN {
            let data = jpeg.get(at..).unwrap_or_default();
            let is_marker = |pair: &[u8]| pair[0] == 0xff && !matches!(pair[1], 0 | 0xd0..=0xd7 | 0xff);
            match data.windows(2).position(is_marker) {
                Some(length) => at += length,
                None => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &[u8] = &[0xff, 0xd8];
    /// A scan with an empty header and some data, among them an escaped FF and a restart.
    const A_SCAN: &[u8] = &[0xff, SCAN, 0, 2, 1, 2, 0xff, 0, 3, 0xff, 0xd3, 4];
    const AN_END: &[u8] = &[0xff, END];

    fn cut(parts: &[&[u8]]) -> bool {
        is_cut_short(&[&[START], parts].concat().concat())
    }

    #[test]
    fn whole_files_end_with_the_marker_behind_their_last_scan() {
        assert!(!cut(&[A_SCAN, AN_END]));
        assert!(!cut(&[A_SCAN, &[0xff, 0xc4, 0, 3, 9], A_SCAN, AN_END]), "progressive: tables and two scans");
        assert!(!cut(&[&[0xff, 0xff, 0xff, 0xe0, 0, 2], A_SCAN, &[0xff], AN_END]), "filled up");
    }

    #[test]
    fn cut_files_lack_it_wherever_they_are_cut() {
        let whole = [START, &[0xff, 0xe0, 0, 4, 7, 7], A_SCAN, AN_END].concat();
        for length in 2..whole.len() {
            assert!(is_cut_short(&whole[..length]), "{length}");
        }
        assert!(!is_cut_short(&whole));
    }

    #[test]
    fn thumbnails_inside_and_films_behind_do_not_count() {
        // A thumbnail with an end marker of its own, in a segment of 2 + 16 bytes; the picture itself is cut.
        let thumbnail = [&[0xff, 0xe1, 0, 18][..], START, A_SCAN, AN_END].concat();
        assert!(cut(&[&thumbnail, A_SCAN]));
        assert!(!cut(&[&thumbnail, A_SCAN, AN_END]));
        // A film behind the end happens to hold the bytes of a scan.
        assert!(!cut(&[A_SCAN, AN_END, &[1, 2, 0xff, SCAN, 5, 6]]));
    }

    #[test]
    fn what_is_no_jpeg_is_left_to_the_decoder() {
        assert!(!cut(&[b"words"]));
    }
}
