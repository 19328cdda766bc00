//! Ports of loopback that belong to one test at a time.

use std::fs::{self, File};
use std::net::TcpListener;

use anyhow::{Context, Result};

/// Below the range from which the kernel assigns ports to connections (from 32768 on Linux): a connection of another test would
/// otherwise take a port while nothing listens on it.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// A port on which nothing listens. It is of this process alone until the process ends, also while its server is stopped.
pub fn free_port() -> Result<u16> {
    let folder = std::env::temp_dir().join("lineclear-test-ports");
    fs::create_dir_all(&folder)?;
    let first = usize::from(PORTS.start) + std::process::id() as usize * 7 % PORTS.len();
    let ports = PORTS.clone().cycle().skip(first - usize::from(PORTS.start)).take(PORTS.len());
    for port in ports {
        // Other tests see the lock of the file; it ends with this process.
        let Ok(file) = File::create(folder.join(port.to_string())) else { continue };
        if file.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            std::mem::forget(file);
            return Ok(port);
        }
    }
    None.context("no port is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let ports: std::collections::HashSet<u16> = (0..20).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), 20);
        assert!(ports.iter().all(|port| PORTS.contains(port)));
    }
}
