//! Rules that tests break on purpose, to see that the swarm finds out.
//!
//! Nothing is broken without the feature `mutants`, which only tests of `sim` ask for: [`is`] is
//! false at compile time then, and what depends on it is not there.

#[cfg(feature = "mutants")]
use std::cell::Cell;

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A packet of several slots spends one credit less than it takes.
    SpendsTooLittle,
    /// Slots of the control region are not freed.
    KeepsControlSlots,
    /// One credit more is piggybacked than is owed.
    ReturnsOneTooMany,
    /// Credits that come are now and then not counted.
    LosesCredits,
    /// A packet number is left out now and then.
    SkipsNumbers,
    /// An idle moment returns no credits.
    IdlesInVain,
    /// What was set aside for a reply is not freed.
    KeepsReplySlots,
    /// Credits that are given back stay.
    GivesBackAndKeeps,
    /// The owner of chunk claims copies its first chunk again in the place of its last.
    CopiesAChunkTwice,
    /// A message meets the newest receive that accepts it.
    MatchesTheNewestReceive,
    /// A receive meets the newest message that it accepts.
    MatchesTheNewestMessage,
    /// The source of a message does not matter.
    MatchesAnySource,
    /// A bit of the tag does not matter.
    OverlooksATagBit,
    /// A receive does not look at what has come before it.
    OverlooksMessages,
    /// A message is delivered once more now and then.
    DeliversTwice,
    /// The end of a transfer is not heard now and then.
    LosesFins,
    /// The last byte of a message stays behind.
    CopiesTooLittle,
    /// The slots of a message that waited for its receive stay held.
    KeepsSlots,
    /// The memory of such a message is not given back.
    KeepsLentMemory,
    /// The bytes of a reply land one byte too far.
    LandsChunksTooFar,
    /// An acknowledgement that has no credit is forgotten.
    ForgetsAcknowledgements,
    /// The end of a transfer that has no credit is not told.
    ForgetsDelayedFins,
    /// A transfer that ends has no other one begin that waits for that.
    LeavesOthersUninvited,
    /// A message does not wait behind those that wait for credits.
    OvertakesTheQueue,
    /// A message that waits leaves the queue without being sent, now and then.
    LosesQueuedMessages,
    /// A chunk is asked for twice now and then.
    AsksForAChunkTwice,
    /// A transfer ends with its first chunk.
    EndsPullsEarly,
    /// A sender without credits offers its oldest message, wanted or not.
    OffersTheWrongMessage,
    /// A sender without credits forgets what it was to tell of.
    ForgetsWatches,
    /// What is announced is not exposed.
    RevokesTooEarly,
    /// What was announced stays exposed.
    KeepsExposures,
    /// A receive is cancelled that its source has used.
    CancelsUsedReceives,
    /// A send is cancelled whose memory the rail still reads.
    CancelsWhatIsRead,
    /// A receive is announced whatever older ones there are.
    AnnouncesOutOfOrder,
    /// Slots that hold messages of a process that has ended are given to others.
    GivesAwayTheDead,
    /// A receive from a process that has ended waits on.
    ForgetsTheDead,
    /// A message meets the newest of the receives that the rail has no room for.
    ServesTheNewestFirst,
    /// What has come for receives that the rail has no room for is not claimed.
    ForgetsTheCrowded,
    /// The overflow list is searched before the priority list.
    PrefersTheOverflowList,
    /// An entry that refuses truncation takes what is too long.
    TruncatesAnyway,
    /// An entry takes operations that it does not allow.
    OverlooksPermissions,
    /// Want of an entry does not disable a portal table entry with flow control.
    StaysEnabled,
    /// An entry that unlinks itself does not tell.
    ForgetsUnlinkEvents,
    /// An entry of the overflow list is told as free while headers wait in it.
    FreesTooEarly,
    /// A header does not use an entry up that is used once.
    LinksUsedEntries,
    /// A put that was cut is acknowledged as whole.
    AcknowledgesTheWholeLength,
    /// A triggered operation starts one short of its threshold.
    FiresTooEarly,
    /// Of equal thresholds, the newest triggered operation starts first.
    FiresTheNewestFirst,
    /// What a counter sets off goes after all that others have set off.
    FiresBreadthFirst,
    /// A conditional swap swaps.
    SwapsWithoutComparing,
    /// An atomic operation that answers gives back what it has written.
    FetchesTheNewValue,
    /// An acknowledgement of what was dropped counts as a success.
    CountsTheDropped,
    /// An entry that manages its offset keeps it where it was.
    ManagesNoOffset,
    /// An entry that manages its offset stays linked, however little is left.
    IgnoresMinFree,
    /// Of a put that was cut, all bytes are counted.
    CountsWhatWasAskedFor,
    /// A search that is to find all headers stops at the first.
    SearchesForOne,
    /// Headers that an entry takes do not move its offset.
    IgnoresIncrements,
    /// The last place for a credit packet goes to what brings next to nothing.
    GivesTheLastPlaceAway,
    /// The target of a get is told before the rail has read its memory.
    TellsOfGetsTooEarly,
    /// What is refused begins again behind the operation that was refused first.
    BeginsBehindTheRefused,
    /// An entry that is enabled again takes what comes before what it has refused.
    OverlooksRefusals,
    /// An initiator that is resumed does not say that it begins again.
    ForgetsRestarts,
    /// What a process that is gone was to acknowledge is told as done.
    TakesTheLostForDone,
    /// What a process that is gone has refused, or was to take, is kept.
    KeepsWhatTheDeadRefused,
    /// Data that a process that is gone was to bring is told as there.
    TakesTheCutForWhole,
    /// An operation on remote memory does not wait for those that it is fenced from.
    IgnoresFences,
    /// An operation on remote memory ends with the first of its parts.
    EndsWithTheFirstPart,
    /// The target of an operation on remote memory is told of each of its pieces.
    CountsPieces,
    /// It is told of the last one while bytes of others are on their way.
    TellsTooEarly,
    /// The bytes of an injected operation on remote memory are not copied.
    InjectsInPlace,
    /// The copies of injected operations on remote memory are not given back.
    KeepsInjectedCopies,
    /// A region that is hidden can be reached.
    ShowsHiddenRegions,
    /// A region that is hidden stays published.
    KeepsPublished,
    /// A region is published though its owner is to be told what is done with it.
    PublishesWhatIsTold,
    /// What has moved at once is asked for too.
    AsksForWhatHasMoved,
    /// A target is told nothing of writes with data.
    ForgetsDataOfWrites,
    /// What peers do with a region is told as if they had written it.
    TellsReadsAsWrites,
    /// A message in a buffer for many lies over the one before.
    OverlapsInBuffers,
    /// A buffer for many that is used up does not say so.
    ForgetsUsedBuffers,
    /// What is left of a buffer for many waits behind receives that were posted after it.
    WaitsBehindOthers,
    /// Each part of a message for several pieces goes to the first one.
    FillsOnePieceAgain,
    /// A message for several pieces that was here already is not copied to them.
    LeavesWhatWasHere,
    /// Memory that was lent for a message for several pieces is not given back.
    KeepsStagedMemory,
}

impl Mutant {
    /// Those that programs of the whole stack come by.
    pub const ALL: [Mutant; 38] = [
        Mutant::SpendsTooLittle,
        Mutant::KeepsControlSlots,
        Mutant::ReturnsOneTooMany,
        Mutant::LosesCredits,
        Mutant::SkipsNumbers,
        Mutant::IdlesInVain,
        Mutant::KeepsReplySlots,
        Mutant::GivesBackAndKeeps,
        Mutant::CopiesAChunkTwice,
        Mutant::MatchesTheNewestReceive,
        Mutant::MatchesTheNewestMessage,
        Mutant::MatchesAnySource,
        Mutant::OverlooksATagBit,
        Mutant::OverlooksMessages,
        Mutant::DeliversTwice,
        Mutant::LosesFins,
        Mutant::CopiesTooLittle,
        Mutant::KeepsSlots,
        Mutant::KeepsLentMemory,
        Mutant::LandsChunksTooFar,
        Mutant::ForgetsAcknowledgements,
        Mutant::ForgetsDelayedFins,
        Mutant::LeavesOthersUninvited,
        Mutant::OvertakesTheQueue,
        Mutant::LosesQueuedMessages,
        Mutant::AsksForAChunkTwice,
        Mutant::EndsPullsEarly,
        Mutant::OffersTheWrongMessage,
        Mutant::ForgetsWatches,
        Mutant::RevokesTooEarly,
        Mutant::KeepsExposures,
        Mutant::CancelsUsedReceives,
        Mutant::CancelsWhatIsRead,
        Mutant::AnnouncesOutOfOrder,
        Mutant::GivesAwayTheDead,
        Mutant::ForgetsTheDead,
        Mutant::ServesTheNewestFirst,
        Mutant::ForgetsTheCrowded,
    ];

    /// Those that only programs with buffers for many messages come by.
    pub const OF_BUFFERS: [Mutant; 3] =
        [Mutant::OverlapsInBuffers, Mutant::ForgetsUsedBuffers, Mutant::WaitsBehindOthers];

    /// Those that only receives into several pieces come by.
    pub const OF_PIECES: [Mutant; 3] =
        [Mutant::FillsOnePieceAgain, Mutant::LeavesWhatWasHere, Mutant::KeepsStagedMemory];

    /// Those that only programs with remote memory come by.
    pub const OF_REMOTE: [Mutant; 16] = [
        Mutant::IgnoresFences,
        Mutant::EndsWithTheFirstPart,
        Mutant::CountsPieces,
        Mutant::TellsTooEarly,
        Mutant::InjectsInPlace,
        Mutant::KeepsInjectedCopies,
        Mutant::ShowsHiddenRegions,
        Mutant::KeepsPublished,
        Mutant::PublishesWhatIsTold,
        Mutant::AsksForWhatHasMoved,
        Mutant::ForgetsDataOfWrites,
        Mutant::TellsReadsAsWrites,
        Mutant::TruncatesAnyway,
        Mutant::OverlooksPermissions,
        Mutant::SwapsWithoutComparing,
        Mutant::FetchesTheNewValue,
    ];

    /// Those that only programs of Portals calls come by.
    pub const OF_PORTALS: [Mutant; 27] = [
        Mutant::PrefersTheOverflowList,
        Mutant::TruncatesAnyway,
        Mutant::OverlooksPermissions,
        Mutant::StaysEnabled,
        Mutant::ForgetsUnlinkEvents,
        Mutant::FreesTooEarly,
        Mutant::LinksUsedEntries,
        Mutant::AcknowledgesTheWholeLength,
        Mutant::FiresTooEarly,
        Mutant::FiresTheNewestFirst,
        Mutant::FiresBreadthFirst,
        Mutant::SwapsWithoutComparing,
        Mutant::FetchesTheNewValue,
        Mutant::CountsTheDropped,
        Mutant::ManagesNoOffset,
        Mutant::IgnoresMinFree,
        Mutant::CountsWhatWasAskedFor,
        Mutant::SearchesForOne,
        Mutant::IgnoresIncrements,
        Mutant::GivesTheLastPlaceAway,
        Mutant::TellsOfGetsTooEarly,
        Mutant::BeginsBehindTheRefused,
        Mutant::OverlooksRefusals,
        Mutant::ForgetsRestarts,
        Mutant::TakesTheLostForDone,
        Mutant::KeepsWhatTheDeadRefused,
        Mutant::TakesTheCutForWhole,
    ];
}

/// Of how often a rule is asked for that is broken now and then, one time is broken.
#[cfg(feature = "mutants")]
const NOW_AND_THEN: u64 = 10;

#[cfg(feature = "mutants")]
thread_local! {
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

/// Runs with this rule broken, in this thread.
#[cfg(feature = "mutants")]
pub fn with<R>(mutant: Mutant, run: impl FnOnce() -> R) -> R {
    MUTANT.set(Some(mutant));
    ASKED.set(0);
    let result = run();
    MUTANT.set(None);
    result
}

/// Whether a rule is broken.
#[must_use]
#[inline(always)]
pub fn is(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    return MUTANT.get() == Some(mutant);
    #[cfg(not(feature = "mutants"))]
    {
        let _ = mutant;
        false
    }
}

/// Whether a rule is broken this time.
#[must_use]
#[inline(always)]
pub fn is_now(mutant: Mutant) -> bool {
    #[cfg(feature = "mutants")]
    if is(mutant) {
        ASKED.set(ASKED.get() + 1);
        return ASKED.get().is_multiple_of(NOW_AND_THEN);
    }
    let _ = mutant;
    false
}
