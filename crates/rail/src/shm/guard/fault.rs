//! A touch of memory that ends with an answer if it faults.
//!
//! The touches are a few instructions with labels around them. A handler of
//! `SIGSEGV` and `SIGBUS` sends a fault between the labels to code that answers
//! no. A fault in a mailbox whose file was shortened it mends (`mapped`). Every
//! other fault it passes on to whoever handled it before, as if this handler were
//! not there.
//!
//! Invariants: the handler is installed at most once, and stays; once more before
//! what a library installs that this process loads itself (`install_above`). What it
//! needs is stored before it is installed. It calls nothing but what a signal handler
//! may call. Whoever else installs a handler later has to pass on what is not its
//! own, as this one does; and a thread that blocks the two signals cannot be
//! helped, for the system ends it.

use std::arch::global_asm;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, Once, PoisonError};

// Each routine takes an address and answers one. They use no stack, so the
// answer of a refused touch returns to the same caller.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .text.sluice_rail_touch,\"ax\",@progbits",
    ".hidden sluice_rail_touch_begin",
    ".hidden sluice_rail_touch_end",
    ".hidden sluice_rail_touch_refused",
    ".hidden sluice_rail_touch_read",
    ".hidden sluice_rail_touch_write",
    ".globl sluice_rail_touch_begin",
    ".globl sluice_rail_touch_end",
    ".globl sluice_rail_touch_refused",
    ".globl sluice_rail_touch_read",
    ".globl sluice_rail_touch_write",
    ".p2align 4",
    "sluice_rail_touch_begin:",
    "sluice_rail_touch_read:",
    "movzx eax, byte ptr [rdi]",
    "mov eax, 1",
    "ret",
    "sluice_rail_touch_write:",
    "lock or byte ptr [rdi], 0",
    "mov eax, 1",
    "ret",
    "sluice_rail_touch_end:",
    "sluice_rail_touch_refused:",
    "xor eax, eax",
    "ret",
    ".popsection",
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .text.sluice_rail_touch,\"ax\",@progbits",
    ".hidden sluice_rail_touch_begin",
    ".hidden sluice_rail_touch_end",
    ".hidden sluice_rail_touch_refused",
    ".hidden sluice_rail_touch_read",
    ".hidden sluice_rail_touch_write",
    ".globl sluice_rail_touch_begin",
    ".globl sluice_rail_touch_end",
    ".globl sluice_rail_touch_refused",
    ".globl sluice_rail_touch_read",
    ".globl sluice_rail_touch_write",
    ".p2align 4",
    "sluice_rail_touch_begin:",
    "sluice_rail_touch_read:",
    "ldrb w1, [x0]",
    "mov w0, #1",
    "ret",
    "sluice_rail_touch_write:",
    "2:",
    "ldxrb w1, [x0]",
    "stxrb w2, w1, [x0]",
    "cbnz w2, 2b",
    "mov w0, #1",
    "ret",
    "sluice_rail_touch_end:",
    "sluice_rail_touch_refused:",
    "mov w0, #0",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    #[link_name = "sluice_rail_touch_begin"]
    static TOUCH_BEGIN: u8;
    #[link_name = "sluice_rail_touch_end"]
    static TOUCH_END: u8;
    #[link_name = "sluice_rail_touch_refused"]
    static TOUCH_REFUSED: u8;
    #[link_name = "sluice_rail_touch_read"]
    fn touch_read(at: *const u8) -> u32;
    #[link_name = "sluice_rail_touch_write"]
    fn touch_write(at: *const u8) -> u32;
}

/// Whether the byte at `at` can be read.
pub(crate) fn read(at: *const u8) -> bool {
    debug_assert!(INSTALLED.is_completed());
    // SAFETY: the routine reads one byte and uses nothing of it; a fault ends
    // in its answer, by the handler, which is installed before any touch.
    unsafe { touch_read(at) != 0 }
}

/// Whether the byte at `at` can be written. It is written as it is, in one
/// step, so nothing that another thread writes is lost.
pub(crate) fn write(at: *const u8) -> bool {
    debug_assert!(INSTALLED.is_completed());
    // SAFETY: the routine changes no bit; a fault ends in its answer, by the
    // handler, which is installed before any touch.
    unsafe { touch_write(at) != 0 }
}

static INSTALLED: Once = Once::new();

/// What handled each signal before. Null: the default action. An action is
/// never freed, so a handler that has loaded it may use it.
static SEGV_BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());
static BUS_BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

fn before(signal: libc::c_int) -> &'static AtomicPtr<libc::sigaction> {
    if signal == libc::SIGBUS { &BUS_BEFORE } else { &SEGV_BEFORE }
}

/// Installs the handler, once.
pub(crate) fn install() {
    INSTALLED.call_once(|| {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            install_for(signal);
        }
    });
}

/// Puts the handler, where it is installed, before one that a library has installed since:
/// such a one may end the process at what this one answers.
pub(crate) fn install_above() {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        let is_above = swap_action(signal, None).sa_sigaction == own_action();
        if INSTALLED.is_completed() && !is_above {
            install_for(signal);
        }
    }
}

fn own_action() -> libc::sighandler_t {
    on_fault as *const () as libc::sighandler_t
}

fn install_for(signal: libc::c_int) {
    // Asked first and stored first: a fault may come as soon as the handler is
    // there.
    let old = swap_action(signal, None);
    let restart = old.sa_flags & libc::SA_RESTART;
    keep(signal, old);
    let mut new = no_action();
    new.sa_sigaction = own_action();
    // On the alternate stack: a stack that overflowed is a fault of others.
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | restart;
    let replaced = swap_action(signal, Some(&new));
    if replaced.sa_sigaction != old.sa_sigaction {
        // Somebody else installed one in between.
        keep(signal, replaced);
    }
}

fn keep(signal: libc::c_int, action: libc::sigaction) {
    before(signal).store(Box::into_raw(Box::new(action)), Ordering::Release);
}

fn no_action() -> libc::sigaction {
    // SAFETY: zeroes are a valid action: the default one, nothing masked.
    unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() }
}

/// Says what the action of a signal is, and sets a new one, if there is one.
fn swap_action(signal: libc::c_int, new: Option<&libc::sigaction>) -> libc::sigaction {
    let mut old = no_action();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: both point to actions or to nothing; a handler that is set keeps
    // the rules of one (see `on_fault`).
    let done = unsafe { libc::sigaction(signal, new, &raw mut old) };
    debug_assert_eq!(done, 0, "the signal exists");
    old
}

/// Where the instruction counter of an interrupted thread is kept.
///
/// # Safety
/// `context` is what the system gave to a signal handler, not yet returned.
unsafe fn counter_of<'a>(context: *mut libc::c_void) -> &'a mut u64 {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: it points to a context that only this handler uses.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        {
            let at = &raw mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize];
            &mut *at.cast::<u64>()
        }
        #[cfg(target_arch = "aarch64")]
        {
            &mut (*context).uc_mcontext.pc
        }
    }
}

extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the system hands over a valid `info`.
    let by_instruction = unsafe { (*info).si_code } > 0;
    // SAFETY: the context is the one just handed over.
    let counter = unsafe { counter_of(context) };
    let (begin, end) = (&raw const TOUCH_BEGIN, &raw const TOUCH_END);
    if by_instruction && (begin.addr() as u64..end.addr() as u64).contains(counter) {
        *counter = (&raw const TOUCH_REFUSED).addr() as u64;
        return;
    }
    // SAFETY: what an instruction caused comes with the address that it touched.
    let touched = unsafe { (*info).si_addr() }.addr();
    if by_instruction && signal == libc::SIGBUS && super::mapped::replace(touched) {
        return;
    }
    // SAFETY: handed on as they came.
    unsafe { pass_on(signal, info, context, by_instruction) };
}

/// Lets the action before this one handle the signal.
///
/// # Safety
/// As the system called this handler.
unsafe fn pass_on(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    by_instruction: bool,
) {
    let kept = before(signal).load(Ordering::Acquire);
    // SAFETY: kept actions are never freed.
    let action = unsafe { kept.as_ref() }.copied().unwrap_or_else(no_action);
    match action.sa_sigaction {
        // One that was sent is ignored. One that an instruction caused cannot
        // be; the system treats it as the default action, too.
        libc::SIG_IGN if !by_instruction => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            swap_action(signal, Some(&no_action()));
            // The instruction faults again on return, for good. A signal that
            // was sent has to be sent again.
            if !by_instruction {
                // SAFETY: a thread may send itself a signal.
                unsafe { libc::raise(signal) };
            }
        }
        handler => {
            if action.sa_flags & libc::SA_RESETHAND != 0 {
                before(signal).store(ptr::null_mut(), Ordering::Release);
            }
            // What it wanted blocked while it runs; undone on return, when the
            // system restores the mask of the context.
            // SAFETY: the masks are valid; the handler has the type that its
            // flags say.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const action.sa_mask, ptr::null_mut());
                if action.sa_flags & libc::SA_NODEFER != 0 {
                    let mut own = no_action().sa_mask;
                    libc::sigaddset(&raw mut own, signal);
                    libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const own, ptr::null_mut());
                }
                if action.sa_flags & libc::SA_SIGINFO != 0 {
                    type Informed =
                        extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
                    std::mem::transmute::<libc::sighandler_t, Informed>(handler)(
                        signal, info, context,
                    );
                } else {
                    type Plain = extern "C" fn(libc::c_int);
                    std::mem::transmute::<libc::sighandler_t, Plain>(handler)(signal);
                }
            }
        }
    }
}

const _: () = assert!(size_of::<libc::sighandler_t>() == size_of::<extern "C" fn()>());
