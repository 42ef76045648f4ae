//! Identity of the data that a task is learned from: a hash over class names, labels and pixels.
//!
//! A task that was interrupted resumes only with the data that it was begun with, wherever these lie now. Every image
//! counts, in its place: the order of the images decides which batches are formed.

use crate::task::TaskSet;

/// Hash of class names and of the labels and pixels of sets of images, as hexadecimal digits.
pub fn content_hash<'a>(classes: &[String], sets: impl IntoIterator<Item = &'a TaskSet>) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(format!("{classes:?}").as_bytes());
    for set in sets {
        let shape = set.shape();
        hash.update(format!("{} {shape:?}", set.len()).as_bytes());
        let mut image = vec![0; shape.bytes()];
        for position in 0..set.len() {
            set.write(position, &mut image);
            hash.update(&set.label(position).to_le_bytes());
            hash.update(&image);
        }
    }
    hash.finalize().to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::counting_set;
    use crate::transform::Transform;

    #[test]
    fn names_labels_pixels_order_and_split_count() {
        let set = TaskSet::of_all(counting_set(6), 1, Transform::Identity);
        let (some, rest) = (set.part(&[0, 1, 2]), set.part(&[3, 4, 5]));
        let names = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let usual = content_hash(&names("a", "b"), [&some, &rest]);
        assert_eq!(usual, content_hash(&names("a", "b"), [&some, &rest]));
        for other in [
            content_hash(&names("a", "c"), [&some, &rest]),
            content_hash(&names("a", "b"), [&some.with_labels(&[1, 0]), &rest]),
            content_hash(&names("a", "b"), [&set.part(&[0, 2, 1]), &rest]),
            content_hash(&names("a", "b"), [&some, &set.part(&[3, 4, 0])]),
            content_hash(&names("a", "b"), [&set.part(&[0, 1, 2, 3]), &set.part(&[4, 5])]),
        ] {
            assert_ne!(usual, other);
        }
    }
}
