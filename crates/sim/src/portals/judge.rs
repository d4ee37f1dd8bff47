//! What memory holds and registers say in the end.

use super::model::Bytes;
use super::program::Program;
use sluice_wire::Region;

/// What nobody has written yet.
pub const BLANK: u8 = 0xEE;

/// Panics unless all memory and all registers are as the model has them.
pub fn check(program: &Program<'_>) {
    let gathered = |who: usize, pieces: &[Region]| -> Vec<u8> {
        let memory = &program.world.memories[who];
        pieces.iter().flat_map(|piece| memory.read(*piece).to_vec()).collect()
    };
    let is_dead = |who: usize| program.world.is_dead(who);
    for (at, entry) in program.model.entries.iter().enumerate() {
        if is_dead(entry.who) {
            continue;
        }
        let found = gathered(entry.who, &program.entry_memory[at].pieces);
        let differs = entry.memory.differs_at(&found);
        assert_eq!(differs, None, "memory of entry {at} of {}", entry.who);
    }
    for (id, op) in program.model.ops.iter().enumerate() {
        if !op.kind.reads() || is_dead(op.from) {
            continue;
        }
        let found = gathered(op.from, &program.op_memory[id].answer);
        let mut wanted = Bytes::new(vec![BLANK; found.len()]);
        if let Some(answer) = program.model.answer_of(id) {
            wanted.begin_with(&answer);
        }
        let differs = wanted.differs_at(&found);
        assert_eq!(differs, None, "the answer to operation {id}: {:?}", op.kind);
    }
    for (who, process) in program.model.processes.iter().enumerate() {
        if is_dead(who) {
            continue;
        }
        let (status, registers) = (program.world.ni(who).status(), process.registers);
        assert_eq!(status.dropped, registers.dropped, "PTL_SR_DROP_COUNT of {who}");
        assert_eq!(
            (status.operation_violations, status.permission_violations),
            (registers.operation_violations, registers.permission_violations),
            "PTL_SR_OPERATION_VIOLATIONS and PTL_SR_PERMISSION_VIOLATIONS of {who}"
        );
    }
}
