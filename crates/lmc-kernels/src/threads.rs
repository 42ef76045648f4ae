//! Work over images, on all threads, with results that do not depend on how many there are.
//!
//! Images are split into a fixed number of parts. Each part sums up in its own place, in order, and the places
//! are added in order at the end.

use std::ops::Range;

use rayon::prelude::*;

use crate::scratch::Scratch;

/// How many parts a batch is split into; more than this many threads find nothing to do.
const PARTS: usize = 16;

/// How images are handed out to threads.
#[derive(Clone, Copy, Debug)]
pub struct Images {
    /// How many images there are, of all modules together.
    pub count: usize,
    /// How many images are worked on together at most.
    pub group: usize,
    /// How many images each module has; a group never holds images of two modules.
    pub per_module: usize,
}

impl Images {
    /// Images of a single module.
    pub fn new(count: usize, group: usize) -> Self {
        Self { count, group, per_module: count }
    }

    /// Numbers of the images in a part.
    fn part(&self, part: usize) -> Range<usize> {
        self.count * part / PARTS..self.count * (part + 1) / PARTS
    }

    /// Splits a part into groups.
    fn groups(self, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let mut start = part.start;
        std::iter::from_fn(move || {
            let border = (start / self.per_module.max(1) + 1) * self.per_module;
            let end = (start + self.group.max(1)).min(part.end).min(border);
            let group = start..end;
            start = end;
            (!group.is_empty()).then_some(group)
        })
    }
}

/// The floats of some images, given by their numbers, of which each has `size` floats.
pub fn slice_of<'a>(numbers: &'a [f32], images: &Range<usize>, size: usize) -> &'a [f32] {
    &numbers[images.start * size..images.end * size]
}

/// Does `work(images of a group, their places in the outputs, sums of the part)` for all groups; gives the sum of
/// all parts.
///
/// Each of `outputs` holds the same number of floats for every image, and `sums` numbers start at zero.
pub fn over_images<const O: usize>(
    images: Images,
    outputs: [&mut [f32]; O],
    sums: usize,
    work: impl Fn(Range<usize>, [&mut [f32]; O], &mut [f32]) + Sync,
) -> Scratch {
    let sizes = outputs.each_ref().map(|output| output.len() / images.count.max(1));
    let mut rest = outputs;
    let mut split = |images: usize| {
        let mut at = 0;
        rest.each_mut().map(|rest| {
            let (mine, later) = std::mem::take(rest).split_at_mut(images * sizes[at]);
            *rest = later;
            at += 1;
            mine
        })
    };
    let parts: Vec<_> = (0..PARTS).map(|part| (images.part(part), split(images.part(part).len()))).collect();
    let run = |(part, mut outputs): (Range<usize>, [&mut [f32]; O])| {
        let mut sum = Scratch::zeros(sums);
        for group in images.groups(part) {
            let mut at = 0;
            let mine = outputs.each_mut().map(|rest| {
                let (mine, later) = std::mem::take(rest).split_at_mut(group.len() * sizes[at]);
                *rest = later;
                at += 1;
                mine
            });
            work(group, mine, &mut sum);
        }
        sum
    };
    let busy = parts.into_iter().filter(|(part, _)| !part.is_empty());
    let partial: Vec<Scratch> = if images.count == 1 {
        busy.map(run).collect()
    } else {
        busy.collect::<Vec<_>>().into_par_iter().map(run).collect()
    };
    let mut partial = partial.into_iter();
    let mut total = partial.next().unwrap_or_else(|| Scratch::zeros(sums));
    let rest: Vec<Scratch> = partial.collect();
    // Every number is the sum of its parts in order, whichever thread adds it up.
    const AT_ONCE: usize = 4096;
    total.par_chunks_mut(AT_ONCE).enumerate().for_each(|(at, total)| {
        for part in &rest {
            total.iter_mut().zip(&part[at * AT_ONCE..]).for_each(|(total, part)| *total += part);
        }
    });
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_once_in_its_place_and_in_the_sum() {
        for (count, group, per_module) in
            [(0, 1, 0), (1, 4, 1), (3, 1, 3), (8, 3, 2), (64, 4, 64), (67, 100, 9)]
        {
            let mut outputs = vec![0.0; count * 2];
            let images = Images { count, group, per_module };
            let sum = over_images(images, [&mut outputs], 1, |images, [output], sum| {
                assert!(images.len() <= group);
                assert_eq!(images.start / per_module, (images.end - 1) / per_module);
                for (image, output) in images.zip(output.chunks_exact_mut(2)) {
                    output.fill(image as f32);
                    sum[0] += 1.0;
                }
            });
            assert_eq!(sum[..], [count as f32]);
            assert!(outputs.chunks(2).enumerate().all(|(image, output)| output == [image as f32; 2]));
        }
    }
}
