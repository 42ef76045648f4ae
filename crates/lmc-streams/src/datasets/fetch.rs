//! One file from its addresses: resume, try again, take the next mirror, until the checksum is right.

use std::fs;
use std::path::Path;

use ureq::Agent;

use super::get::{GetConfig, Progress, WantedFile, disk_error};
use super::transfer::{Failure, length, transfer};
use super::verify::sha256_of;
use crate::error::Error;

/// The addresses that were tried, each with its failure.
pub(super) type Failures<'a> = Vec<(&'a str, Failure)>;

/// Tries one address after the other. When all failed: each address with its failure.
pub(super) fn fetch<'a>(
    agent: &Agent,
    file: &'a WantedFile,
    target: &Path,
    config: &GetConfig,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Result<(), Failures<'a>>, Error> {
    let part = target.with_file_name(format!("{}.part", file.name));
    let mut failures = Failures::new();
    for address in &file.addresses {
        if let Some((_, failure)) = failures.last() {
            progress(Progress::TryingMirror { address, reason: &failure.reason() });
        }
        match fetch_from(agent, address, file, &part, config, progress) {
            Ok(()) => {
                fs::rename(&part, target).map_err(disk_error("write", target))?;
                return Ok(Ok(()));
            }
            Err(Failure::Disk(error)) => return Err(error),
            Err(failure) => failures.push((address, failure)),
        }
    }
    Ok(Err(failures))
}

/// Requests the file from one address until it is complete and right, or it is clear that it will not be.
fn fetch_from(
    agent: &Agent,
    address: &str,
    file: &WantedFile,
    part: &Path,
    config: &GetConfig,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), Failure> {
    // A connection that breaks but brings this much each time is slow, not hopeless.
    const WORTHWHILE: u64 = 1 << 20;
    let mut furthest = length(part).map_err(Failure::Disk)?;
    // Bytes of an earlier run or of another address may belong to another file: worth one fresh start.
    let from_elsewhere = furthest > 0;
    let mut started_again = false;
    let mut broken = 0_u32;
    loop {
        let have = length(part).map_err(Failure::Disk)?;
        if have > file.bytes {
            delete(part)?;
            continue;
        }
        let transferred = if have == file.bytes {
            Ok(())
        } else {
            progress(Progress::Started { file: &file.name, bytes: file.bytes, bytes_so_far: have });
            let mut received = |bytes_so_far| progress(Progress::Received { bytes_so_far });
            transfer(agent, address, part, file.bytes, config, &mut received)
        };
        match transferred {
            Ok(()) => {
                progress(Progress::Verifying { file: &file.name });
                let found = sha256_of(part).map_err(Failure::Disk)?;
                if found == file.sha256 {
                    return Ok(());
                }
                delete(part)?;
                if started_again || !from_elsewhere {
                    let expected = &file.sha256;
                    let reason = format!("its SHA-256 is {found} instead of {expected}");
                    return Err(Failure::Refused(reason));
                }
                started_again = true;
            }
            Err(Failure::StartAgain) if !started_again => {
                delete(part)?;
                started_again = true;
            }
            Err(Failure::Cut(reason)) => {
                let have = length(part).map_err(Failure::Disk)?;
                if have >= furthest.saturating_add(WORTHWHILE) {
                    (furthest, broken) = (have, 0);
                }
                broken += 1;
                if broken >= config.attempts {
                    return Err(Failure::Cut(reason));
                }
                progress(Progress::Retrying { address, reason: &reason });
                std::thread::sleep(config.back_off.saturating_mul(1 << (broken - 1).min(6)));
            }
            Err(failure) => return Err(failure),
        }
    }
}

fn delete(part: &Path) -> Result<(), Failure> {
    fs::remove_file(part).map_err(|error| Failure::Disk(disk_error("delete", part)(error)))
}
