//! The `fi_info` that answers. All its memory is from `calloc` and `strdup`,
//! because `fi_freeinfo` gives it to `free`.

use super::hints::Hints;
use super::*;
use crate::engine::Address;
use crate::ffi::{DomainHints, fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_rx_attr, fi_tx_attr};
use sluice_runtime::Settings;
use sluice_runtime::settings::Progress;
use std::ffi::CStr;

/// An answer under construction, freed unless it is finished.
struct Draft(*mut fi_info);

impl Drop for Draft {
    fn drop(&mut self) {
        // SAFETY: every pointer is null or from libc's allocator, and only
        // this draft has it; `free` accepts null.
        unsafe {
            if let Some(info) = self.0.as_ref() {
                if let Some(domain) = info.domain_attr.as_ref() {
                    libc::free(domain.hints.name.cast());
                }
                if let Some(fabric) = info.fabric_attr.as_ref() {
                    libc::free(fabric.name.cast());
                }
                libc::free(info.domain_attr.cast());
                libc::free(info.fabric_attr.cast());
                libc::free(info.tx_attr.cast());
                libc::free(info.rx_attr.cast());
                libc::free(info.ep_attr.cast());
                libc::free(info.src_addr);
                libc::free(info.dest_addr);
            }
            libc::free(self.0.cast());
        }
    }
}

/// The answer to hints that fit.
pub fn make(version: u32, hints: &Hints, settings: &Settings) -> Result<*mut fi_info, Errno> {
    let asked = hints.info.map_or(0, |info| info.caps);
    let caps = granted(asked);
    let draft = Draft(zeroed::<fi_info>()?);
    // SAFETY: just allocated, zeroed, and nobody else has it; null pointers and
    // zeros are valid members.
    let info = unsafe { &mut *draft.0 };
    info.tx_attr = zeroed()?;
    info.rx_attr = zeroed()?;
    info.ep_attr = zeroed()?;
    info.domain_attr = zeroed()?;
    info.fabric_attr = zeroed()?;
    info.caps = caps;
    info.addr_format = ADDR_FORMAT;
    info.handle = hints.info.map_or(std::ptr::null_mut(), |info| info.handle);
    if let Some(addr) = hints.dest_addr {
        info.dest_addr = copied(addr)?;
        info.dest_addrlen = addr.len();
    }
    // Which address an endpoint will have is known when it is open.
    let addr = hints.src_addr.unwrap_or(&Address::NOBODY);
    info.src_addr = copied(addr)?;
    info.src_addrlen = addr.len();
    // SAFETY: just allocated and zeroed; zeros are valid in all of them.
    unsafe {
        fill_tx(&mut *info.tx_attr, caps, hints, settings);
        fill_rx(&mut *info.rx_attr, caps, hints);
        fill_ep(&mut *info.ep_attr, hints);
        fill_domain(&mut *info.domain_attr, version, hints, settings)?;
        fill_fabric(&mut *info.fabric_attr, version)?;
    }
    let finished = draft.0;
    std::mem::forget(draft);
    Ok(finished)
}

/// The capabilities given to a program that asks for `asked`.
fn granted(asked: u64) -> u64 {
    if asked == 0 {
        return CAPS & !ffi::FI_SOURCE;
    }
    let mut caps = asked | FREE_CAPS;
    let sides = [(MESSAGES, MESSAGE_SIDES), (MEMORY, MEMORY_SIDES)];
    for (interfaces, directions) in sides {
        if caps & interfaces != 0 && caps & directions == 0 {
            caps |= directions;
        }
    }
    caps
}

fn fill_tx(tx: &mut fi_tx_attr, caps: u64, hints: &Hints, settings: &Settings) {
    let asked = hints.tx.map_or(0, |tx| tx.caps);
    tx.caps = part(caps, asked, TX_CAPS);
    tx.op_flags = hints.tx.map_or(0, |tx| tx.op_flags);
    tx.msg_order = MSG_ORDER;
    tx.inject_size = settings.inject_bytes;
    tx.size = QUEUE_SIZE;
    tx.iov_limit = SIDES_MAX;
    tx.rma_iov_limit = SIDES_MAX;
    tx.tclass = hints.tx.map_or(0, |tx| tx.tclass);
}

fn fill_rx(rx: &mut fi_rx_attr, caps: u64, hints: &Hints) {
    let asked = hints.rx.map_or(0, |rx| rx.caps);
    rx.caps = part(caps, asked, RX_CAPS);
    rx.op_flags = hints.rx.map_or(0, |rx| rx.op_flags);
    rx.msg_order = MSG_ORDER;
    rx.size = QUEUE_SIZE;
    rx.iov_limit = SIDES_MAX;
}

/// What of `caps` belongs to one direction: all, or what was asked of it.
fn part(caps: u64, asked: u64, direction: u64) -> u64 {
    let mine = caps & direction;
    if asked == 0 { mine } else { mine & (asked | FREE_CAPS) }
}

fn fill_ep(ep: &mut fi_ep_attr, hints: &Hints) {
    ep.type_ = ffi::FI_EP_RDM;
    ep.protocol = PROTOCOL;
    ep.protocol_version = 1;
    ep.max_msg_size = MESSAGE_MAX;
    // A named format is a promise of the program about its tags; the matching
    // serves it without looking.
    let asked = hints.ep.map_or(0, |ep| ep.mem_tag_format);
    let named = asked != 0 && asked <= ffi::FI_TAG_MAX_FORMAT;
    ep.mem_tag_format = if named { asked } else { TAG_FORMAT };
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;
}

fn fill_domain(
    domain: &mut fi_domain_attr,
    version: u32,
    hints: &Hints,
    settings: &Settings,
) -> Result<(), Errno> {
    // What was asked is checked to be something that we do; zero is "any".
    let asked = |pick: fn(&DomainHints) -> u32, any| match hints.domain.map_or(0, pick) {
        0 => any,
        asked => asked,
    };
    let domain = &mut domain.hints;
    domain.name = duplicate(DOMAIN)?;
    domain.threading = asked(|d| d.threading, ffi::FI_THREAD_SAFE);
    let progress = unasked_progress(hints, settings);
    domain.control_progress = asked(|d| d.control_progress, progress);
    domain.data_progress = asked(|d| d.data_progress, progress);
    domain.resource_mgmt = ffi::FI_RM_ENABLED;
    domain.av_type = asked(|d| d.av_type, ffi::FI_AV_MAP);
    domain.mr_mode = mr_mode(version, hints.domain.map_or(0, |d| d.mr_mode));
    domain.mr_key_size = MR_KEY_SIZE;
    domain.cq_data_size = CQ_DATA_SIZE;
    domain.cq_cnt = OBJECTS_MAX;
    domain.ep_cnt = OBJECTS_MAX;
    domain.tx_ctx_cnt = OBJECTS_MAX;
    domain.rx_ctx_cnt = OBJECTS_MAX;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.mr_iov_limit = MR_IOV_LIMIT;
    domain.cntr_cnt = OBJECTS_MAX;
    domain.caps = FREE_CAPS;
    domain.max_err_data = ERR_DATA_MAX;
    domain.mr_cnt = OBJECTS_MAX;
    domain.tclass = hints.domain.map_or(0, |d| d.tclass);
    Ok(())
}

/// How progress is made where a program does not say. Who says of the other kind that it is manual,
/// as it is where both are one, means this one too.
fn unasked_progress(hints: &Hints, settings: &Settings) -> u32 {
    let is_manual = hints.domain.is_some_and(|domain| {
        [domain.data_progress, domain.control_progress].iter().any(|&asked| {
            matches!(asked, ffi::FI_PROGRESS_MANUAL | ffi::FI_PROGRESS_CONTROL_UNIFIED)
        })
    });
    let caps = hints.info.map_or(0, |info| info.caps);
    match settings.progress {
        Progress::Thread => ffi::FI_PROGRESS_AUTO,
        Progress::Asked if !is_manual && is_one_sided(caps) => ffi::FI_PROGRESS_AUTO,
        // Who drives progress itself is not told that it need not.
        Progress::Asked | Progress::Poll => ffi::FI_PROGRESS_MANUAL,
    }
}

/// The registration mode of the answer: none of the demands that 1.5 gave bits
/// to; before it, the one that says "nothing needed" or what was asked.
fn mr_mode(version: u32, asked: i32) -> i32 {
    let legacy = asked & (ffi::FI_MR_BASIC | ffi::FI_MR_SCALABLE);
    if legacy != 0 {
        legacy
    } else if version < ffi::version(1, 5) {
        ffi::FI_MR_SCALABLE
    } else {
        0
    }
}

fn fill_fabric(fabric: &mut fi_fabric_attr, version: u32) -> Result<(), Errno> {
    fabric.name = duplicate(FABRIC)?;
    // libfabric puts in `prov_name` itself, and takes one that is there for
    // the name of a provider below.
    fabric.prov_version = crate::VERSION;
    fabric.api_version = version;
    Ok(())
}

fn zeroed<T>() -> Result<*mut T, Errno> {
    // SAFETY: any size and count are allowed.
    let at = unsafe { libc::calloc(1, size_of::<T>()) };
    if at.is_null() { Err(Errno::NO_MEMORY) } else { Ok(at.cast()) }
}

fn duplicate(text: &CStr) -> Result<*mut c_char, Errno> {
    // SAFETY: a NUL-terminated string.
    let at = unsafe { libc::strdup(text.as_ptr()) };
    if at.is_null() { Err(Errno::NO_MEMORY) } else { Ok(at) }
}

fn copied(bytes: &[u8]) -> Result<*mut libc::c_void, Errno> {
    // SAFETY: any size is allowed.
    let at = unsafe { libc::malloc(bytes.len().max(1)) };
    if at.is_null() {
        return Err(Errno::NO_MEMORY);
    }
    // SAFETY: just allocated with that length, so they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast(), bytes.len()) };
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primary_capabilities_are_given_only_when_asked_for() {
        let caps = granted(ffi::FI_MSG);
        assert_eq!(caps & (ffi::FI_TAGGED | ffi::FI_DIRECTED_RECV | ffi::FI_SOURCE), 0);
        assert_eq!(caps & (ffi::FI_SEND | ffi::FI_RECV), ffi::FI_SEND | ffi::FI_RECV);
        assert_eq!(granted(ffi::FI_MSG | ffi::FI_SEND) & ffi::FI_RECV, 0);
        assert_eq!(granted(0) & PRIMARY_CAPS, PRIMARY_CAPS);
    }

    #[test]
    fn registration_modes() {
        let (old, new) = (ffi::version(1, 4), ffi::version(1, 17));
        assert_eq!(mr_mode(old, 0), ffi::FI_MR_SCALABLE);
        assert_eq!(mr_mode(old, ffi::FI_MR_BASIC), ffi::FI_MR_BASIC);
        assert_eq!(mr_mode(new, 0x7c), 0);
    }

    #[test]
    fn progress_is_what_was_asked_for() {
        let answer = |caps: u64, (data, control): (u32, u32), progress: Progress| {
            // SAFETY: zeros and null pointers are valid in these structures.
            let (mut domain, mut info): (DomainHints, fi_info) = unsafe { std::mem::zeroed() };
            (domain.data_progress, domain.control_progress, info.caps) = (data, control, caps);
            let hints = Hints { domain: Some(&domain), info: Some(&info), ..Hints::default() };
            let settings = Settings { progress, ..crate::param::get().clone() };
            let version = ffi::version(1, 17);
            hints.check(version, &settings).ok()?;
            let made = Draft(make(version, &hints, &settings).expect("memory"));
            // SAFETY: just made, and every part is there.
            let domain = unsafe { &*(*made.0).domain_attr };
            Some((domain.hints.data_progress, domain.hints.control_progress))
        };
        let (any, auto, manual) = (0, ffi::FI_PROGRESS_AUTO, ffi::FI_PROGRESS_MANUAL);
        let progress = |asked, progress| answer(0, (asked, any), progress);
        assert_eq!(progress(any, Progress::Asked), Some((manual, manual)));
        assert_eq!(progress(manual, Progress::Asked), Some((manual, manual)));
        assert_eq!(progress(auto, Progress::Asked), Some((auto, manual)));
        assert_eq!(progress(any, Progress::Poll), Some((manual, manual)));
        assert_eq!(progress(auto, Progress::Poll), None);
        assert_eq!(progress(any, Progress::Thread), Some((auto, auto)));
        assert_eq!(progress(manual, Progress::Thread), Some((manual, auto)));
        let unified = ffi::FI_PROGRESS_CONTROL_UNIFIED;
        assert_eq!(progress(unified, Progress::Asked), Some((unified, manual)));
        assert_eq!(progress(unified + 1, Progress::Asked), None);
        let one_sided = ffi::FI_RMA | ffi::FI_ATOMIC;
        let given = |caps, asked| answer(caps, asked, Progress::Asked);
        assert_eq!(given(ffi::FI_RMA, (any, any)), Some((auto, auto)));
        assert_eq!(given(one_sided, (any, any)), Some((auto, auto)));
        assert_eq!(given(one_sided, (any, unified)), Some((manual, unified)));
        assert_eq!(given(one_sided, (unified, any)), Some((unified, manual)));
        assert_eq!(given(one_sided, (manual, any)), Some((manual, manual)));
        assert_eq!(given(one_sided, (any, manual)), Some((manual, manual)));
        assert_eq!(given(one_sided | ffi::FI_TAGGED, (any, any)), Some((manual, manual)));
        assert_eq!(given(one_sided | ffi::FI_MSG, (any, any)), Some((manual, manual)));
        assert_eq!(answer(one_sided, (any, any), Progress::Poll), Some((manual, manual)));
    }

    #[test]
    fn an_answer_is_whole() {
        let made = make(ffi::version(1, 17), &Hints::default(), crate::param::get());
        let made = Draft(made.expect("memory"));
        // SAFETY: just made, and every part is there.
        let (info, ep, domain) =
            unsafe { (&*made.0, &*(*made.0).ep_attr, &*(*made.0).domain_attr) };
        assert_eq!(ep.type_, ffi::FI_EP_RDM);
        assert_eq!(ep.mem_tag_format.leading_zeros(), 0);
        assert_eq!(domain.hints.threading, ffi::FI_THREAD_SAFE);
        assert!(info.next.is_null());
    }
}
