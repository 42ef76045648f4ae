//! How much memory a process may take for what it can size: pictures that are decoded at the same time, batches of
//! images in a forward pass, caches. Results do not depend on it.
//!
//! A picture that does not fit waits until others are done; one that would not fit alone is an error that names the
//! picture. What cannot be sized (the image sets of a task, the model itself) is not counted, hence the budget is half of
//! the memory unless the user says otherwise.

use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::{Error, Result};
use crate::regular_file::size_text;

/// Where nobody can tell how much memory there is.
const UNKNOWN_MEMORY: u64 = 4 << 30;

/// Least budget: with less, not even a photo can be decoded.
pub const LEAST_BUDGET: u64 = 16 << 20;

static BUDGET: OnceLock<MemoryBudget> = OnceLock::new();

/// Bytes that may be in use at the same time.
#[derive(Debug)]
pub struct MemoryBudget {
    bytes: u64,
    used: Mutex<u64>,
    freed: Condvar,
}

/// Bytes in use; they are free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl MemoryBudget {
    fn new(bytes: u64) -> Self {
        Self { bytes, used: Mutex::new(0), freed: Condvar::new() }
    }

    /// The budget of this process: as set, or half of what the machine or its control group has.
    pub fn of_process() -> &'static Self {
        BUDGET.get_or_init(|| Self::new((total() / 2).max(LEAST_BUDGET)))
    }

    /// Sets the budget of this process, before anything uses it.
    pub fn set(bytes: u64) -> Result<()> {
        if bytes < LEAST_BUDGET {
            let problem = format!("{} is too little", size_text(bytes));
            return Err(Error::setting(
                "memory",
                problem,
                format!("use {} or more", size_text(LEAST_BUDGET)),
            ));
        }
        match BUDGET.set(Self::new(bytes)) {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::setting("memory", "it is in use already", "set it at the start")),
        }
    }

    /// All bytes of the budget, in use or not.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Waits until so many bytes are free and takes them; `None` if the whole budget is smaller.
    ///
    /// Who holds a reservation must neither take a second one nor wait for other threads that might: all would wait for
    /// ever.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Reservation<'_>> {
        if bytes > self.bytes {
            return None;
        }
        let mut used = self.used();
        while *used + bytes > self.bytes {
            used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used += bytes;
        Some(Reservation { budget: self, bytes })
    }

    fn used(&self) -> MutexGuard<'_, u64> {
        // A number is whole whoever panicked.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        *self.budget.used() -= self.bytes;
        self.budget.freed.notify_all();
    }
}

/// Bytes of memory that this process could have.
fn total() -> u64 {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| of_machine(&text));
    let group = read(Path::new("/proc/self/cgroup")).and_then(|text| of_group(&text, &read));
    match (machine, group) {
        (Some(machine), Some(group)) => machine.min(group),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => UNKNOWN_MEMORY,
    }
}

/// The line `MemTotal: 24000000 kB`.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The lowest limit of the control groups that the process is in, of version 2 or 1.
fn of_group(groups: &str, read: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_size_text")
            }
            _ => return None,
        };
        let folder = Path::new(root).join(path.trim_start_matches('/'));
        // A limit of a group binds all groups below it.
        let above = folder.ancestors().take_while(|folder| folder.starts_with(root));
        above.filter_map(|folder| read(&folder.join(file))?.trim().parse::<u64>().ok()).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn no_more_than_the_budget_is_in_use() {
        let budget = MemoryBudget::new(100);
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (budget, now, most) = (&budget, &now, &most);
                scope.spawn(move || {
                    for round in 0..200 {
                        let bytes = 1 + (thread * 37 + round * 11) % 100;
                        let held = budget.reserve(bytes).unwrap();
                        most.fetch_max(now.fetch_add(bytes, Ordering::SeqCst) + bytes, Ordering::SeqCst);
                        std::thread::yield_now();
                        now.fetch_sub(bytes, Ordering::SeqCst);
                        drop(held);
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 100);
        assert_eq!(*budget.used(), 0);
        assert!(budget.reserve(101).is_none());
    }

    #[test]
    fn the_lowest_limit_counts() {
        assert_eq!(of_machine("MemFree: 7 kB\nMemTotal:       24 kB\n"), Some(24 * 1024));
        assert_eq!(of_machine("MemTotal: much"), None);
        let files = |path: &Path| {
            let text = match path.to_str()? {
                "/sys/fs/cgroup/user/job/memory.max" => "max\n",
                "/sys/fs/cgroup/user/memory.max" => "3000\n",
                "/sys/fs/cgroup/memory.max" => "4000\n",
                "/sys/fs/cgroup/memory/docker/memory.limit_size_text" => "9223372036854771712\n",
                "/sys/fs/cgroup/memory/memory.limit_size_text" => "5000\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        assert_eq!(of_group("0::/user/job\n", &files), Some(3000));
        assert_eq!(of_group("0::/\n", &files), Some(4000));
        assert_eq!(of_group("3:cpu,cpuacct:/\n7:memory:/docker\n", &files), Some(5000));
        assert_eq!(of_group("0::/../../elsewhere\n", &|_| None), None);
        assert_eq!(of_group("nonsense", &files), None);
    }
}
