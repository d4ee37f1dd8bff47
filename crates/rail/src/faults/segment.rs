//! Shared memory that cannot be had: a mailbox that is not made, or a peer's that is not mapped.
//!
//! Both are shortages of the system, as `shortage` has them: the first ends the start of an
//! endpoint with an error that says so; after the second, operations on that peer fail, and are
//! well again when there is room.

use rustix::io::Errno;

/// Whether a mailbox may be made.
///
/// # Errors
/// What the system says if there is no memory for it.
#[inline(always)]
pub(crate) fn on_make() -> Result<(), Errno> {
    #[cfg(any(test, feature = "faults"))]
    if super::drawn::on_make() {
        return Err(Errno::NOMEM);
    }
    Ok(())
}

/// Whether the mailbox of a peer may be mapped.
///
/// # Errors
/// What the system says if this process may not map more.
#[inline(always)]
pub(crate) fn on_map() -> Result<(), Errno> {
    #[cfg(any(test, feature = "faults"))]
    if super::drawn::on_map() {
        return Err(Errno::NOMEM);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{on_make, on_map};
    use crate::faults::{Plan, with_plan};
    use crate::shortage::is_shortage;

    #[test]
    fn each_is_a_shortage_as_often_as_is_wanted() {
        let plan = Plan::parse("seed=3,make=0.5,map=0.1").unwrap();
        let ((made, mapped), counts) = with_plan(plan, || {
            let made = (0..200).filter(|_| on_make().is_err()).count() as u64;
            (made, (0..200).filter(|_| on_map().is_err()).count() as u64)
        });
        assert_eq!((made, mapped), (counts.of("make"), counts.of("map")));
        assert!((70..130).contains(&made) && (5..40).contains(&mapped), "{made}, {mapped}");
        let (cause, _) = with_plan(Plan::parse("make=1").unwrap(), on_make);
        assert!(is_shortage(&cause.unwrap_err().into()));
        assert_eq!((on_make(), on_map()), (Ok(()), Ok(())), "without a plan there are none");
    }
}
