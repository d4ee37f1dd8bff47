//! How the experiments' mailboxes are divided, in the link layer's terms.

use crate::config::{Config, Flow, Layer, Protocol, SLOTS_MAX};
use crate::error::ConfigError;
use sluice_link::{Grant, Layout};

/// Control slots of a sender in the layer that sends control packets.
const CONTROL_SLOTS: u8 = 32;

/// The division that a configuration asks for.
///
/// # Errors
/// What the link layer cannot do.
pub fn layout(config: &Config) -> Result<Layout, ConfigError> {
    let Flow { protocol, slots, credit_slots, .. } = config.flow;
    let (data_slots, dynamic_slots) = match protocol {
        Protocol::Static => (slots - credit_slots, 0),
        Protocol::Unlimited => (SLOTS_MAX, 0),
        Protocol::Dynamic => {
            // A sender owns as many slots as there are for credit packets
            // (equation 2); what is left of all shares is the dynamic region.
            let left = slots.checked_sub(2 * credit_slots).filter(|left| *left > 0);
            let Some(left) = left else {
                let text = format!(
                    "must be at least {} for the dynamic protocol: so many for credit packets, as \
                     many for each sender to own, and one to be given away",
                    2 * credit_slots + 1
                );
                return Err(ConfigError::new("flow.slots", text));
            };
            (credit_slots, left * config.processes)
        }
    };
    // The paper has no control packets besides those for credits; in the layer
    // of whole messages those of the stack come on top of `slots`.
    let (control_slots, reply_slots) = match config.layer {
        Layer::Packets => (1, 1),
        Layer::Messages => (CONTROL_SLOTS, config.endpoint.reply_slots),
    };
    let grant = Grant {
        data_slots: data_slots as u16,
        control_slots,
        // Half of the places are for the returns of the control region.
        credit_slots: 2 * credit_slots as u8,
    };
    Ok(Layout {
        grant,
        dynamic_slots,
        senders_max: config.processes as u16,
        reply_slots,
        // Places are not modelled, only their number.
        ring_slots: 1 << 31,
    })
}
