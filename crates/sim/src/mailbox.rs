//! How the experiments' mailboxes are divided, in the link layer's terms.

use crate::config::{Config, Flow, Layer, Protocol, SLOTS_MAX};
use crate::error::ConfigError;
use sluice_link::{Grant, Layout};

/// Control slots of a sender in the layer that sends control packets.
const CONTROL_SLOTS: u8 = 32;
/// Reply slots in the same layer.
const REPLY_SLOTS: u16 = 2048;

/// The division that a configuration asks for.
///
/// # Errors
/// What the link layer cannot do.
pub fn layout(config: &Config) -> Result<Layout, ConfigError> {
    let Flow { protocol, slots, credit_slots, .. } = config.flow;
    let data_slots = match protocol {
        Protocol::Static => slots - credit_slots,
        Protocol::Unlimited => SLOTS_MAX,
        Protocol::Dynamic => {
            let text = "\"dynamic\" is not there yet; \"static\" and \"unlimited\" are";
            return Err(ConfigError::new("flow.protocol", text));
        }
    };
    // The paper has no control packets besides those for credits; in the layer
    // of whole messages those of the stack come on top of `slots`.
    let (control_slots, reply_slots) = match config.layer {
        Layer::Packets => (1, 1),
        Layer::Messages => (CONTROL_SLOTS, REPLY_SLOTS),
    };
    let grant = Grant {
        data_slots: data_slots as u16,
        control_slots,
        // Half of the places are for the returns of the control region.
        credit_slots: 2 * credit_slots as u8,
    };
    Ok(Layout {
        grant,
        senders_max: config.processes as u16,
        reply_slots,
        // Places are not modelled, only their number.
        ring_slots: 1 << 31,
    })
}
