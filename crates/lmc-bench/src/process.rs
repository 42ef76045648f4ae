//! Memory and processor time of this process, where the system tells them: on Linux, from `/proc`.

/// Makes [`peak_memory`] start anew from the memory that the process has now; where the system cannot do that, it keeps
/// counting from the start of the process.
pub fn reset_peak_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most resident memory in bytes that the process had since its start or the last [`reset_peak_memory`].
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}

/// Processor seconds that the process has used since its start, all threads together, in steps of a hundredth.
pub fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, in brackets, may have blanks; user and system time are the 12th and 13th field after it.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_uses_the_processor() {
        let Some(before) = processor_seconds() else { return };
        let started = std::time::Instant::now();
        let mut sum = 0.0_f64;
        while started.elapsed().as_millis() < 200 {
            sum += (sum + 1.0).sqrt();
        }
        let spent = processor_seconds().unwrap() - before;
        assert!(sum > 0.0 && spent > 0.02 && spent < 60.0, "{spent}");
    }
}
