//! Starts a lab.

use crate::directory::{self, Lab, Lock};
use crate::hold::{Answer, Held, Order};
use crate::plan::Plan;
use crate::programs;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::geteuid;
use std::fs::{self, File};
use std::process::Stdio;

/// Starts a lab; gives what was started.
pub fn up(plan: &Plan) -> Result<Lab> {
    ensure!(
        geteuid().is_root(),
        "a lab needs root: it makes network namespaces; next: run  sudo sluice lab up"
    );
    programs::check_all()?;
    let _lock = Lock::take()?;
    make_directory(plan)?;
    build(plan).inspect_err(|_| {
        // What failed leaves nothing; the error says why.
        let _ = fs::remove_dir_all(directory::dir(&plan.name));
    })
}

/// Makes the lab's directory, where a lab that has died may have left one.
fn make_directory(plan: &Plan) -> Result<()> {
    let name = &plan.name;
    let dir = directory::dir(name);
    if dir.exists() {
        let is_running = Lab::open(name).is_ok_and(|lab| lab.head().is_some());
        ensure!(!is_running, "the lab {name} is there already; end it: {}", directory::down(name));
        fs::remove_dir_all(&dir).with_context(|| format!("{} cannot be removed", dir.display()))?;
    }
    fs::create_dir(&dir)
        .and_then(|()| fs::create_dir(directory::agents(name)))
        .and_then(|()| fs::write(directory::hosts_file(name), plan.hosts_file()))
        .with_context(|| format!("{} cannot be made", dir.display()))
}

fn build(plan: &Plan) -> Result<Lab> {
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let log = File::create(directory::log_file(&plan.name))?;
    let mut held = Held::start(&program, Stdio::from(log), &Order::Head(plan.clone()))?;
    let done = complete(plan, &mut held);
    if done.is_err() {
        held.end();
    }
    done.with_context(|| {
        // `unshare` says there what the kernel refused.
        let log = fs::read_to_string(directory::log_file(&plan.name)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("the lab {} cannot be built here {}", plan.name, lines.join("; "))
    })
}

fn complete(plan: &Plan, held: &mut Held) -> Result<Lab> {
    let Answer::Complete(head, hosts) = held.answer()? else {
        bail!("the head answered something else");
    };
    let lab = Lab { plan: plan.clone(), head, hosts };
    lab.write()?;
    held.send(&())?;
    Ok(lab)
}
