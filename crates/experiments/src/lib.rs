//! Experiments on simulated interconnects: what is to be run, the runs, and their report.

#![forbid(unsafe_code)]
