//! `sluice completion` and the manual pages: both from what `--help` is made of.

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

/// Arguments of `sluice completion`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sluice completion bash > ~/.local/share/bash-completion/completions/sluice
  sluice completion zsh > ~/.zfunc/_sluice
  sluice completion fish > ~/.config/fish/completions/sluice.fish")]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `sluice man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page for each command into this directory
    dir: PathBuf,
}

/// Prints the completions.
pub fn complete<C: CommandFactory>(args: &CompletionArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "sluice", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}

/// Writes `sluice.1`, `sluice-run.1` and so on.
pub fn write_pages<C: CommandFactory>(args: &ManArgs) -> Result<()> {
    let dir = &args.dir;
    let failed = || format!("no manual pages can be written to {}", dir.display());
    fs::create_dir_all(dir).with_context(failed)?;
    clap_mangen::generate_to(C::command(), dir).with_context(failed)
}
