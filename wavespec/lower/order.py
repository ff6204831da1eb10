"""The passes, a line each, in the order they run."""

from __future__ import annotations

from wavespec.lower.announce_columns import AnnounceColumns
from wavespec.lower.announce_copies import AnnounceCopies
from wavespec.lower.announce_results import AnnounceResults
from wavespec.lower.announce_rows import AnnounceRows
from wavespec.lower.assign_layouts import AssignLayouts
from wavespec.lower.assign_tiles import AssignTiles
from wavespec.lower.base import Pass
from wavespec.lower.carry_ranks import CarryRanks
from wavespec.lower.carry_running_sums import CarryRunningSums
from wavespec.lower.check_once import CheckOnce
from wavespec.lower.choose_instructions import ChooseInstructions
from wavespec.lower.choose_waves import ChooseWaves
from wavespec.lower.collect_sums import CollectSums
from wavespec.lower.count_in_floats import CountInFloats
from wavespec.lower.cut_tiles import CutTiles
from wavespec.lower.deal_rows import DealRows
from wavespec.lower.defer_reductions import DeferReductions
from wavespec.lower.distribute_copies import DistributeCopies
from wavespec.lower.drop_checks import DropChecks
from wavespec.lower.drop_unit_dims import DropUnitDims
from wavespec.lower.fetch_ahead import FetchAhead
from wavespec.lower.fit_waves import FitWaves
from wavespec.lower.fold_grid import FoldGrid
from wavespec.lower.fuse_products import FuseProducts
from wavespec.lower.hoist_invariants import HoistInvariants
from wavespec.lower.inline_steps import InlineSteps
from wavespec.lower.join_products import JoinProducts
from wavespec.lower.join_remainders import JoinRemainders
from wavespec.lower.join_steps_last import JoinStepsLast
from wavespec.lower.join_waves import JoinWaves
from wavespec.lower.keep_apart import KeepApart
from wavespec.lower.keep_in_shared import KeepInShared
from wavespec.lower.keep_narrow import KeepNarrow
from wavespec.lower.keep_results import KeepResults
from wavespec.lower.leave_out_waves import LeaveOutWaves
from wavespec.lower.limit_code import LimitCode
from wavespec.lower.load_ahead import LoadAhead
from wavespec.lower.load_once import LoadOnce
from wavespec.lower.mask_edges import MaskEdges
from wavespec.lower.match_operands import MatchOperands
from wavespec.lower.meet_once import MeetOnce
from wavespec.lower.multiply_by_lanes import MultiplyByLanes
from wavespec.lower.multiply_in_pairs import MultiplyInPairs
from wavespec.lower.narrow_steps import NarrowSteps
from wavespec.lower.nest_digits import NestDigits
from wavespec.lower.nest_lines import NestLines
from wavespec.lower.pad_once import PadOnce
from wavespec.lower.pad_reads import PadReads
from wavespec.lower.pass_parts_on import PassPartsOn
from wavespec.lower.peel_edges import PeelEdges
from wavespec.lower.peel_waves import PeelWaves
from wavespec.lower.persist_workgroups import PersistWorkgroups
from wavespec.lower.pipeline_loops import PipelineLoops
from wavespec.lower.place_barriers import PlaceBarriers
from wavespec.lower.powers_by_products import PowersByProducts
from wavespec.lower.promote_shared import PromoteShared
from wavespec.lower.raise_late import RaiseLate
from wavespec.lower.read_in_place import ReadInPlace
from wavespec.lower.read_once import ReadOnce
from wavespec.lower.reduce_together import ReduceTogether
from wavespec.lower.restart_sums import RestartSums
from wavespec.lower.roll_rows import RollRows
from wavespec.lower.round_copies import RoundCopies
from wavespec.lower.scale_operands import ScaleOperands
from wavespec.lower.scale_products import ScaleProducts
from wavespec.lower.separate_operands import SeparateOperands
from wavespec.lower.serialize_waves import SerializeWaves
from wavespec.lower.share_last_round import ShareLastRound
from wavespec.lower.share_out_powers import ShareOutPowers
from wavespec.lower.share_quotients import ShareQuotients
from wavespec.lower.share_results import ShareResults
from wavespec.lower.shift_rows import ShiftRows
from wavespec.lower.shorten_sums import ShortenSums
from wavespec.lower.sink_arithmetic import SinkArithmetic
from wavespec.lower.sink_behind_products import SinkBehindProducts
from wavespec.lower.skip_nan import SkipNan
from wavespec.lower.skip_rows import SkipRows
from wavespec.lower.skip_zeros import SkipZeros
from wavespec.lower.specialize_waves import SpecializeWaves
from wavespec.lower.split_chains import SplitChains
from wavespec.lower.split_k import SplitK
from wavespec.lower.split_loops import SplitLoops
from wavespec.lower.split_operands import SplitOperands
from wavespec.lower.split_reduction import SplitReduction
from wavespec.lower.spread_announcements import SpreadAnnouncements
from wavespec.lower.stage_operands import StageOperands
from wavespec.lower.store_at_once import StoreAtOnce
from wavespec.lower.store_whole_lines import StoreWholeLines
from wavespec.lower.strip_tiles import StripTiles
from wavespec.lower.sum_apart import SumApart
from wavespec.lower.sum_bias_once import SumBiasOnce
from wavespec.lower.tile_to_thread import TileToThread
from wavespec.lower.turn_runs import TurnRuns
from wavespec.lower.unroll_batches import UnrollBatches
from wavespec.lower.wait_narrow import WaitNarrow
from wavespec.lower.walk_grid import WalkGrid
from wavespec.lower.walk_rows import WalkRows
from wavespec.lower.widen_sums import WidenSums
from wavespec.lower.write_behind import WriteBehind

PASSES: tuple[Pass, ...] = (
    WidenSums(),
    CarryRunningSums(),
    ScaleProducts(),
    ScaleOperands(),
    SplitOperands(),
    DropUnitDims(),
    ReadOnce(),
    MultiplyByLanes(),
    UnrollBatches(),
    SkipNan(),
    ChooseWaves(),
    ChooseInstructions(),
    NarrowSteps(),
    CarryRanks(),
    SeparateOperands(),
    AssignTiles(),
    FitWaves(),
    SplitLoops(),
    InlineSteps(),
    JoinStepsLast(),
    DeferReductions(),
    PassPartsOn(),
    SplitK(),
    ShareLastRound(),
    JoinWaves(),
    ShiftRows(),
    MatchOperands(),
    PromoteShared(),
    StageOperands(),
    StripTiles(),
    WalkRows(),
    CutTiles(),
    SumApart(),
    RestartSums(),
    SplitReduction(),
    AssignLayouts(),
    DistributeCopies(),
    MaskEdges(),
    KeepResults(),
    PeelEdges(),
    PadOnce(),
    ShareResults(),
    MeetOnce(),
    PadReads(),
    PowersByProducts(),
    FuseProducts(),
    LimitCode(),
    TileToThread(),
    LoadOnce(),
    JoinProducts(),
    CountInFloats(),
    SplitChains(),
    MultiplyInPairs(),
    ReduceTogether(),
    SinkArithmetic(),
    ShareOutPowers(),
    PersistWorkgroups(),
    DealRows(),
    SpecializeWaves(),
    LeaveOutWaves(),
    RoundCopies(),
    PipelineLoops(),
    SerializeWaves(),
    KeepApart(),
    PeelWaves(),
    ShareQuotients(),
    JoinRemainders(),
    TurnRuns(),
    ReadInPlace(),
    FetchAhead(),
    DropChecks(),
    ShortenSums(),
    SkipZeros(),
    SkipRows(),
    StoreAtOnce(),
    SinkBehindProducts(),
    SumBiasOnce(),
    AnnounceCopies(),
    SpreadAnnouncements(),
    WriteBehind(),
    AnnounceRows(),
    AnnounceColumns(),
    AnnounceResults(),
    StoreWholeLines(),
    CheckOnce(),
    NestLines(),
    RollRows(),
    HoistInvariants(),
    RaiseLate(),
    KeepNarrow(),
    LoadAhead(),
    KeepInShared(),
    NestDigits(),
    CollectSums(),
    PlaceBarriers(),
    WaitNarrow(),
    FoldGrid(),
    WalkGrid(),
)
