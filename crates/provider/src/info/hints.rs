//! What a program asks for, and whether the offer meets it.

use super::*;
use crate::engine::Address;
use crate::ffi::{DomainHints, fi_ep_attr, fi_fabric_attr, fi_rx_attr, fi_tx_attr};
use sluice_runtime::Settings;
use sluice_runtime::settings::Progress;
use std::ffi::CStr;

/// Hints, each part as far as it was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    pub info: Option<&'a fi_info>,
    pub tx: Option<&'a fi_tx_attr>,
    pub rx: Option<&'a fi_rx_attr>,
    pub ep: Option<&'a fi_ep_attr>,
    pub domain: Option<&'a DomainHints>,
    pub fabric: Option<&'a fi_fabric_attr>,
    pub domain_name: Option<&'a CStr>,
    pub fabric_name: Option<&'a CStr>,
    pub dest_addr: Option<&'a [u8]>,
    pub src_addr: Option<&'a [u8]>,
}

/// The first thing that does not fit, for a person.
type Misfit = String;

impl Hints<'_> {
    /// The hints at `info`.
    ///
    /// # Safety
    /// `info` is null, or points to a `fi_info` whose pointers are null or
    /// valid; all of it lives as long as the result.
    pub unsafe fn new<'a>(info: *const fi_info) -> Hints<'a> {
        // SAFETY: the caller's promise, for this and every pointer within. A
        // domain attribute is read only as far as 1.x has it.
        unsafe {
            let Some(info) = info.as_ref() else { return Hints::default() };
            let domain = info.domain_attr.cast::<DomainHints>().as_ref();
            let fabric = info.fabric_attr.as_ref();
            Hints {
                info: Some(info),
                tx: info.tx_attr.as_ref(),
                rx: info.rx_attr.as_ref(),
                ep: info.ep_attr.as_ref(),
                domain,
                fabric,
                domain_name: domain.and_then(|d| text(d.name)),
                fabric_name: fabric.and_then(|f| text(f.name)),
                dest_addr: bytes(info.dest_addr, info.dest_addrlen),
                src_addr: bytes(info.src_addr, info.src_addrlen),
            }
        }
    }

    /// Whether the offer meets the hints.
    pub fn check(&self, version: u32, settings: &Settings) -> Result<(), Misfit> {
        self.check_info()?;
        self.check_fabric()?;
        self.check_domain(version, settings)?;
        self.check_ep()?;
        self.check_tx(settings)?;
        self.check_rx()
    }

    fn check_info(&self) -> Result<(), Misfit> {
        let Some(info) = self.info else { return Ok(()) };
        within("caps", info.caps, CAPS)?;
        if info.addr_format != ffi::FI_FORMAT_UNSPEC && info.addr_format != ADDR_FORMAT {
            return Err(format!("addr_format is {:#x}, not {ADDR_FORMAT:#x}", info.addr_format));
        }
        match self.dest_addr.map(Address::from_bytes) {
            Some(Err(error)) => Err(format!("dest_addr: {error}")),
            _ => Ok(()),
        }
    }

    fn check_fabric(&self) -> Result<(), Misfit> {
        named("fabric_attr.name", self.fabric_name, FABRIC)?;
        let version = self.fabric.map_or(0, |fabric| fabric.prov_version);
        if version > crate::VERSION {
            return Err(format!("fabric_attr.prov_version is {version:#x}"));
        }
        Ok(())
    }

    fn check_domain(&self, version: u32, settings: &Settings) -> Result<(), Misfit> {
        named("domain_attr.name", self.domain_name, DOMAIN)?;
        let Some(domain) = self.domain else { return Ok(()) };
        if domain.threading > ffi::FI_THREAD_ENDPOINT {
            return Err(format!("domain_attr.threading is {}", domain.threading));
        }
        // "Unified" asks less than manual: the program keeps its control and data
        // operations apart itself. With libfabric 2.x one field says how both are done.
        for (name, asked) in
            [("control_progress", domain.control_progress), ("data_progress", domain.data_progress)]
        {
            if asked > ffi::FI_PROGRESS_CONTROL_UNIFIED {
                return Err(format!("domain_attr.{name} is {asked}"));
            }
        }
        if settings.progress == Progress::Poll && asks_for_thread(domain) {
            return Err("FI_PROGRESS_AUTO is asked for, and FI_SLUICE_PROGRESS=poll".into());
        }
        if domain.av_type > ffi::FI_AV_TABLE {
            return Err(format!("domain_attr.av_type is {}", domain.av_type));
        }
        check_mr_mode(version, domain.mr_mode)?;
        at_most("domain_attr.mr_key_size", domain.mr_key_size, MR_KEY_SIZE)?;
        at_most("domain_attr.cq_data_size", domain.cq_data_size, CQ_DATA_SIZE)?;
        within("domain_attr.caps", domain.caps, FREE_CAPS)?;
        at_most("domain_attr.auth_key_size", domain.auth_key_size, 0)?;
        // These counts are checked from API 1.5 on.
        if version >= ffi::version(1, 5) {
            at_most("domain_attr.cntr_cnt", domain.cntr_cnt, OBJECTS_MAX)?;
            at_most("domain_attr.mr_iov_limit", domain.mr_iov_limit, MR_IOV_LIMIT)?;
            at_most("domain_attr.max_err_data", domain.max_err_data, ERR_DATA_MAX)?;
            at_most("domain_attr.mr_cnt", domain.mr_cnt, OBJECTS_MAX)?;
        }
        Ok(())
    }

    fn check_ep(&self) -> Result<(), Misfit> {
        let Some(ep) = self.ep else { return Ok(()) };
        if ep.type_ != ffi::FI_EP_UNSPEC && ep.type_ != ffi::FI_EP_RDM {
            return Err("ep_attr.type is not FI_EP_RDM".into());
        }
        if ep.protocol != 0 && ep.protocol != PROTOCOL {
            return Err(format!("ep_attr.protocol is {:#x}, not {PROTOCOL:#x}", ep.protocol));
        }
        at_most("ep_attr.protocol_version", ep.protocol_version as usize, 1)?;
        at_most("ep_attr.max_msg_size", ep.max_msg_size, MESSAGE_MAX)?;
        at_most("ep_attr.msg_prefix_size", ep.msg_prefix_size, 0)?;
        // Of reads and writes there is no order, whatever their size.
        at_most("ep_attr.max_order_raw_size", ep.max_order_raw_size, 0)?;
        at_most("ep_attr.max_order_war_size", ep.max_order_war_size, 0)?;
        at_most("ep_attr.max_order_waw_size", ep.max_order_waw_size, 0)?;
        at_most("ep_attr.tx_ctx_cnt", ep.tx_ctx_cnt, 1)?;
        at_most("ep_attr.rx_ctx_cnt", ep.rx_ctx_cnt, 1)?;
        at_most("ep_attr.auth_key_size", ep.auth_key_size, 0)
    }

    fn check_tx(&self, settings: &Settings) -> Result<(), Misfit> {
        let Some(tx) = self.tx else { return Ok(()) };
        // Receive capabilities are put here by older programs; they are
        // ignored.
        within("tx_attr.caps", tx.caps & !(RX_CAPS & !TX_CAPS), TX_CAPS | FREE_CAPS)?;
        within("tx_attr.op_flags", tx.op_flags, TX_OP_FLAGS)?;
        within("tx_attr.msg_order", tx.msg_order, MSG_ORDER)?;
        within("tx_attr.comp_order", tx.comp_order, 0)?;
        at_most("tx_attr.inject_size", tx.inject_size, settings.inject_bytes)?;
        at_most("tx_attr.size", tx.size, QUEUE_SIZE)?;
        at_most("tx_attr.iov_limit", tx.iov_limit, SIDES_MAX)?;
        at_most("tx_attr.rma_iov_limit", tx.rma_iov_limit, SIDES_MAX)
    }

    fn check_rx(&self) -> Result<(), Misfit> {
        let Some(rx) = self.rx else { return Ok(()) };
        within("rx_attr.caps", rx.caps & !(TX_CAPS & !RX_CAPS), RX_CAPS | FREE_CAPS)?;
        within("rx_attr.op_flags", rx.op_flags, RX_OP_FLAGS)?;
        within("rx_attr.msg_order", rx.msg_order, MSG_ORDER)?;
        within("rx_attr.comp_order", rx.comp_order, 0)?;
        at_most("rx_attr.size", rx.size, QUEUE_SIZE)?;
        at_most("rx_attr.iov_limit", rx.iov_limit, SIDES_MAX)
    }
}

/// Whether the memory registration asked for can be granted. We need none, so
/// any mode will do; before 1.5 there were only two, and later these two may
/// not be mixed with others.
fn check_mr_mode(version: u32, mode: i32) -> Result<(), Misfit> {
    let legacy = ffi::FI_MR_BASIC | ffi::FI_MR_SCALABLE;
    let alone = mode == ffi::FI_MR_BASIC || mode == ffi::FI_MR_SCALABLE;
    let sound =
        if version < ffi::version(1, 5) { mode == 0 || alone } else { mode & legacy == 0 || alone };
    if sound { Ok(()) } else { Err(format!("domain_attr.mr_mode is {mode:#x}")) }
}

fn within(what: &str, asked: u64, offered: u64) -> Result<(), Misfit> {
    match asked & !offered {
        0 => Ok(()),
        excess => Err(format!("{what}: bits {excess:#x} of {asked:#x} are not offered")),
    }
}

fn at_most(what: &str, asked: usize, offered: usize) -> Result<(), Misfit> {
    if asked <= offered { Ok(()) } else { Err(format!("{what} is {asked}, at most {offered}")) }
}

fn named(what: &str, asked: Option<&CStr>, offered: &CStr) -> Result<(), Misfit> {
    match asked {
        Some(name) if name != offered => Err(format!("{what} is {name:?}, not {offered:?}")),
        _ => Ok(()),
    }
}

/// # Safety
/// `text` is null or a NUL-terminated string.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's promise.
    if text.is_null() { None } else { Some(unsafe { CStr::from_ptr(text) }) }
}

/// # Safety
/// `at` is null or points to `len` bytes.
unsafe fn bytes<'a>(at: *const libc::c_void, len: usize) -> Option<&'a [u8]> {
    if at.is_null() || len == 0 {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(at.cast(), len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_registration_modes() {
        let (old, new) = (ffi::version(1, 4), ffi::version(1, 5));
        let local = 1 << 2;
        assert!(check_mr_mode(old, 0).is_ok());
        assert!(check_mr_mode(old, ffi::FI_MR_BASIC).is_ok());
        assert!(check_mr_mode(old, local).is_err());
        assert!(check_mr_mode(new, local).is_ok());
        assert!(check_mr_mode(new, ffi::FI_MR_SCALABLE).is_ok());
        assert!(check_mr_mode(new, ffi::FI_MR_BASIC | local).is_err());
    }

    #[test]
    fn no_hints_fit() {
        assert_eq!(Hints::default().check(ffi::version(2, 5), crate::param::get()), Ok(()));
    }

    #[test]
    fn the_first_misfit_is_named() {
        assert!(within("caps", CAPS | 1 << 5, CAPS).unwrap_err().contains("caps: bits 0x20"));
        assert!(at_most("x", 2, 1).is_err());
    }
}
