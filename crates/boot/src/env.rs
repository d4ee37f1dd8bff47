//! The environment, read into a plan of how this process joins its job.
//!
//! Nothing here touches the process's own environment: the caller hands in a lookup. A variable
//! that is set to nothing counts as not set.

use std::ffi::OsString;
use std::time::Duration;

use super::error::JobError;

/// More ranks than this are taken for a mistake.
pub(super) const SIZE_MAX: u32 = 1 << 20;
/// The shortest secret that is accepted.
pub(super) const KEY_MIN: usize = 8;
const TIMEOUT_DEFAULT_S: u64 = 120;
const TIMEOUT_MAX_S: u64 = 86_400;

/// How this process joins its job, and how long it waits for others.
pub(super) struct Plan {
    pub timeout: Duration,
    pub bootstrap: Bootstrap,
}

pub(super) enum Bootstrap {
    Alone,
    Pmi1 { fd: i32, rank: u32, size: u32 },
    Pmix,
    Rendezvous(Meeting),
}

/// Where and as whom to meet the other ranks. Has no `Debug`, for it holds the secret.
#[derive(Clone)]
pub(super) struct Meeting {
    /// `host:port`, the host a name or an address.
    pub at: String,
    pub key: Vec<u8>,
    pub rank: u32,
    pub size: u32,
}

/// Reads the plan from what `lookup` says of each variable.
pub(super) fn plan(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Plan, JobError> {
    let env = Env { lookup };
    let timeout_s = match env.text("SLUICE_JOB_TIMEOUT_S")? {
        None => TIMEOUT_DEFAULT_S,
        Some(text) => match text.parse() {
            Ok(s) if (1..=TIMEOUT_MAX_S).contains(&s) => s,
            _ => {
                return Err(JobError::Variable {
                    name: "SLUICE_JOB_TIMEOUT_S",
                    value: text,
                    wanted: "a number of seconds from 1 to 86400",
                });
            }
        },
    };
    Ok(Plan { timeout: Duration::from_secs(timeout_s), bootstrap: env.bootstrap()? })
}

struct Env<'a> {
    lookup: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Env<'_> {
    fn bootstrap(&self) -> Result<Bootstrap, JobError> {
        if let Some(fd) = self.text("PMI_FD")? {
            let (rank, size) = self.place("PMI_FD", "PMI_RANK", "PMI_SIZE")?;
            return match fd.parse::<i32>() {
                Ok(number) if number >= 0 => Ok(Bootstrap::Pmi1 { fd: number, rank, size }),
                _ => Err(JobError::Variable {
                    name: "PMI_FD",
                    value: fd,
                    wanted: "the number of an open file descriptor",
                }),
            };
        }
        if self.is_set("PMIX_NAMESPACE") {
            return Ok(Bootstrap::Pmix);
        }
        let Some(at) = self.text("SLUICE_JOB")? else { return Ok(Bootstrap::Alone) };
        if !names_a_port(&at) {
            return Err(JobError::Variable {
                name: "SLUICE_JOB",
                value: at,
                wanted: "host:port with a port from 1 to 65535 (an IPv6 address in brackets)",
            });
        }
        let (rank, size) = self.place("SLUICE_JOB", "SLUICE_JOB_RANK", "SLUICE_JOB_SIZE")?;
        Ok(Bootstrap::Rendezvous(Meeting { at, key: self.key()?, rank, size }))
    }

    fn key(&self) -> Result<Vec<u8>, JobError> {
        let key = (self.lookup)("SLUICE_JOB_KEY").filter(|key| !key.is_empty());
        let key = key.ok_or(JobError::Missing {
            name: "SLUICE_JOB_KEY",
            because: "SLUICE_JOB",
            wanted: "a secret of 8 characters or more, the same for every rank",
        })?;
        let len = key.to_string_lossy().chars().count();
        if len < KEY_MIN {
            return Err(JobError::KeyTooShort { len, min: KEY_MIN });
        }
        Ok(key.into_encoded_bytes())
    }

    /// The rank and the size, each within its bounds.
    fn place(
        &self,
        because: &'static str,
        rank_name: &'static str,
        size_name: &'static str,
    ) -> Result<(u32, u32), JobError> {
        const SIZE_WANTED: &str = "the number of ranks, from 1 to 1048576";
        const RANK_WANTED: &str = "this rank's number, from 0 to the number of ranks less one";
        let read = |name, wanted| -> Result<(u32, String), JobError> {
            let text = self.text(name)?.ok_or(JobError::Missing { name, because, wanted })?;
            match text.parse() {
                Ok(number) => Ok((number, text)),
                Err(_) => Err(JobError::Variable { name, value: text, wanted }),
            }
        };
        let (size, size_text) = read(size_name, SIZE_WANTED)?;
        let (rank, rank_text) = read(rank_name, RANK_WANTED)?;
        if !(1..=SIZE_MAX).contains(&size) {
            return Err(JobError::Variable {
                name: size_name,
                value: size_text,
                wanted: SIZE_WANTED,
            });
        }
        if rank >= size {
            return Err(JobError::Variable {
                name: rank_name,
                value: rank_text,
                wanted: RANK_WANTED,
            });
        }
        Ok((rank, size))
    }

    fn is_set(&self, name: &str) -> bool {
        (self.lookup)(name).is_some_and(|value| !value.is_empty())
    }

    fn text(&self, name: &'static str) -> Result<Option<String>, JobError> {
        match (self.lookup)(name).filter(|value| !value.is_empty()).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(raw)) => Err(JobError::Variable {
                name,
                value: raw.to_string_lossy().into_owned(),
                wanted: "valid UTF-8",
            }),
        }
    }
}

fn names_a_port(at: &str) -> bool {
    let Some((host, port)) = at.rsplit_once(':') else { return false };
    let bracketed = host.starts_with('[') && host.ends_with(']') && host.len() > 2;
    let plain = !host.is_empty() && !host.contains([':', '[', ']']);
    (bracketed || plain) && port.parse::<u16>().is_ok_and(|port| port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStringExt as _;

    fn of(pairs: &[(&str, &str)]) -> Result<Plan, JobError> {
        plan(&|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.into()))
    }

    fn text(pairs: &[(&str, &str)]) -> String {
        let error = of(pairs).err().expect("a refusal");
        assert!(error.is_of_environment());
        error.to_string()
    }

    const MEETING: [(&str, &str); 4] = [
        ("SLUICE_JOB", "node1:7000"),
        ("SLUICE_JOB_KEY", "open sesame"),
        ("SLUICE_JOB_RANK", "2"),
        ("SLUICE_JOB_SIZE", "3"),
    ];

    fn meeting_with(name: &'static str, value: &'static str) -> Vec<(&'static str, &'static str)> {
        MEETING.into_iter().map(|pair| if pair.0 == name { (name, value) } else { pair }).collect()
    }

    #[test]
    fn nothing_set_is_a_job_of_one() {
        assert!(matches!(of(&[]).unwrap().bootstrap, Bootstrap::Alone));
        assert!(matches!(
            of(&[("PMI_FD", ""), ("SLUICE_JOB", "")]).unwrap().bootstrap,
            Bootstrap::Alone
        ));
        assert_eq!(of(&[]).unwrap().timeout, Duration::from_secs(120));
    }

    #[test]
    fn the_launcher_goes_before_the_rendezvous() {
        let mut all = vec![("PMI_FD", "5"), ("PMI_RANK", "1"), ("PMI_SIZE", "4")];
        all.push(("PMIX_NAMESPACE", "job"));
        all.extend(MEETING);
        assert!(matches!(of(&all).unwrap().bootstrap, Bootstrap::Pmi1 { fd: 5, rank: 1, size: 4 }));
        assert!(matches!(of(&all[1..]).unwrap().bootstrap, Bootstrap::Pmix));
        let Bootstrap::Rendezvous(meeting) = of(&all[4..]).unwrap().bootstrap else {
            panic!("no meeting")
        };
        assert_eq!((meeting.rank, meeting.size, meeting.at.as_str()), (2, 3, "node1:7000"));
        assert_eq!(meeting.key, b"open sesame");
    }

    #[test]
    fn a_secret_is_asked_for_and_never_shown() {
        assert!(text(&meeting_with("SLUICE_JOB_KEY", "")).contains("SLUICE_JOB_KEY is not"));
        let short = text(&meeting_with("SLUICE_JOB_KEY", "sesame7"));
        assert!(short.contains("7 characters") && !short.contains("sesame"), "{short}");
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (name, value) in [
            ("SLUICE_JOB", "node1"),
            ("SLUICE_JOB", "node1:0"),
            ("SLUICE_JOB", "node1:70000"),
            ("SLUICE_JOB", ":7000"),
            ("SLUICE_JOB", "::1:7000"),
            ("SLUICE_JOB_RANK", "3"),
            ("SLUICE_JOB_RANK", "-1"),
            ("SLUICE_JOB_SIZE", "0"),
            ("SLUICE_JOB_SIZE", "4294967296"),
        ] {
            let text = text(&meeting_with(name, value));
            assert!(text.starts_with(&format!("{name}={value:?}")), "{text}");
        }
        assert!(of(&meeting_with("SLUICE_JOB", "[::1]:7000")).is_ok());
        assert!(text(&[("PMI_FD", "5"), ("PMI_SIZE", "1")]).contains("PMI_RANK is not"));
        assert!(text(&[("PMI_FD", "x"), ("PMI_SIZE", "1"), ("PMI_RANK", "0")]).contains("PMI_FD"));
        for value in ["0", "-3", "soon", "86401"] {
            assert!(text(&[("SLUICE_JOB_TIMEOUT_S", value)]).contains("SLUICE_JOB_TIMEOUT_S"));
        }
    }

    proptest! {
        /// Whatever is set, there is a plan that can be followed, or a variable is named.
        #[test]
        fn any_environment_is_a_plan_or_an_error(
            values in prop::array::uniform9(value()),
        ) {
            let names = [
                "SLUICE_JOB_TIMEOUT_S", "PMI_FD", "PMI_RANK", "PMI_SIZE", "PMIX_NAMESPACE",
                "SLUICE_JOB", "SLUICE_JOB_RANK", "SLUICE_JOB_SIZE", "SLUICE_JOB_KEY",
            ];
            let lookup = |name: &str| {
                let at = names.iter().position(|known| *known == name);
                values[at.expect("no other variable is asked for")].clone().map(OsString::from_vec)
            };
            match plan(&lookup) {
                Ok(Plan { timeout, bootstrap }) => {
                    prop_assert!((1..=TIMEOUT_MAX_S).contains(&timeout.as_secs()));
                    match bootstrap {
                        Bootstrap::Alone | Bootstrap::Pmix => {}
                        Bootstrap::Pmi1 { fd, rank, size } => {
                            prop_assert!(fd >= 0 && rank < size && size <= SIZE_MAX);
                        }
                        Bootstrap::Rendezvous(Meeting { at, key, rank, size }) => {
                            prop_assert!(names_a_port(&at) && rank < size && size <= SIZE_MAX);
                            prop_assert!(key.len() >= KEY_MIN);
                        }
                    }
                }
                Err(error) => {
                    prop_assert!(error.is_of_environment());
                    prop_assert!(names.iter().any(|name| error.to_string().contains(name)));
                }
            }
        }
    }

    /// Nothing, any bytes, or what is nearly right.
    fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
        prop_oneof![
            2 => Just(None),
            1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Some),
            2 => "-?[0-9]{1,11}".prop_map(|text| Some(text.into_bytes())),
            2 => "[0-4]".prop_map(|text| Some(text.into_bytes())),
            2 => "[a-z\\[\\]:]{0,6}:[0-9]{1,5}".prop_map(|text| Some(text.into_bytes())),
        ]
    }
}
