import type { PretrainingConfiguration } from '@mtl/configuration';
import {
  type AxisSizes,
  layoutOfRecord,
  meshOfRun,
  scheduleOfStep,
  searchedSettings,
} from '@mtl/configuration/strategies';
import {
  type CollectiveOperation,
  collectiveSeconds,
  estimateSeconds,
  type LayoutEstimate,
  type Profile,
  type RankGroup,
} from '@mtl/cost-model';
import { exposedSeconds, recordedMessageSeconds } from '@mtl/cost-model/internal';
import { type MeshView, reductionAxes } from '@mtl/layout';
import { hasExperts, windowOfLayer } from '@mtl/models';
import { storeOfStrategy, type TrainingState } from '@mtl/optimizer';
import { peakActivations, simulateSchedule } from '@mtl/pipeline/schedules';
import { hasTiedHead } from '../listed-step.js';
import { isPipelineInside, rankGroups } from '../rank-groups.js';
import { type LayoutCandidate, sizesOfExperts, sizesOfMesh } from './layout-candidates.js';
import {
  addParts,
  isOfExperts,
  type LayerKind,
  type PartCost,
  type RecordedCosts,
  recordParts,
  scaledPart,
} from './recorded-parts.js';
import { type ReplicaGroups, UnitCosts } from './unit-costs.js';

export interface RecordedEstimatesOptions {
  readonly profile: Profile;
  readonly numLayers: number;
  readonly globalBatchSize: number;
  /** Returns a candidate's configuration; undefined if the candidate is invalid. */
  readonly configure: (candidate: LayoutCandidate) => PretrainingConfiguration | undefined;
}

/** The cost of a layout, composed from recordings of smaller runs. */
interface Composed {
  /** The cost of each chunk, in the order of the model. */
  readonly chunks: readonly PartCost[];
  readonly numMicroBatches: number;
  /** Seconds to transfer a message from one stage to the next, including the receivers' work. */
  readonly message: number;
  readonly gather: number;
  /** Seconds of the step after the passes. */
  readonly end: number;
  /**
   * The bytes of each rank that do not depend on micro-batches in flight, including the largest temporary
   * memory of a pass.
   */
  readonly fixedBytes: readonly number[];
}

/**
 * Estimates layouts from recordings of small runs (see `recordParts`). There is a recording for each
 * combination of tensor-parallel size, micro-batch size, recomputation and sequence parallelism, with and
 * without a pipeline. For layers with experts, there is also a recording for each way to shard the experts.
 */
export class RecordedEstimates {
  readonly #options: RecordedEstimatesOptions;
  readonly #parts = new Map<string, RecordedCosts | undefined>();
  /** The properties of the model; undefined until a candidate has been configured. */
  #model: SearchedModel | undefined;

  constructor(options: RecordedEstimatesOptions) {
    this.#options = options;
  }

  /** Returns a candidate's estimate; undefined if the candidate is invalid. */
  async estimate(candidate: LayoutCandidate): Promise<LayoutEstimate | undefined> {
    const composed = await this.#composed(candidate, '1f1b');
    if (composed === undefined) return undefined;
    const { chunks, numMicroBatches: m, message, gather, end, fixedBytes } = composed;
    const { pipeline: p, chunks: v } = candidate;
    const memory = fixedBytes.map((bytes, rank) => {
      const own = chunks.filter((_, chunk) => chunk % p === rank);
      const kept = own.reduce((sum, chunk) => sum + chunk.kept, 0) / v;
      return bytes + kept * (candidate.schedule === 'gpipe' ? m : mostInFlight(rank, { p, v, m }));
    });
    const seconds = estimateSeconds({
      chunks: chunks.map(({ forward, backward }) => forward + backward + 2 * gather),
      pipeline: p,
      numMicroBatches: m,
      bubble: candidate.schedule === 'zb-h1' ? 0.5 : 1,
      message,
      end,
    });
    return { seconds, memoryBytes: Math.max(...memory) };
  }

  /**
   * Estimates a layout again by simulating its schedule, which is slower but more accurate. Only some
   * micro-batches are simulated. The time of the remaining micro-batches is extrapolated.
   */
  async refined(candidate: LayoutCandidate): Promise<LayoutEstimate | undefined> {
    const composed = await this.#composed(candidate, candidate.schedule === 'zb-h1' ? 'zb-h1' : '1f1b');
    const parallel = this.#options.configure(candidate)?.parallel;
    if (composed === undefined || parallel === undefined) return undefined;
    const { chunks, numMicroBatches, message, gather, end, fixedBytes } = composed;
    const isLast = (chunk: number): boolean => chunk === chunks.length - 1;
    const behind = (seconds: number, chunk: number): number => seconds + (isLast(chunk) ? 0 : gather);
    const seconds = (count: number): number =>
      simulateSchedule({
        schedule: scheduleOfStep(parallel, count),
        times: {
          forward: chunks.map(({ forward }, chunk) => forward + (chunk > 0 ? gather : 0)),
          backward: chunks.map(({ backward }, chunk) => behind(backward, chunk)),
          backwardInput: chunks.map(({ backwardInput }, chunk) => behind(backwardInput, chunk)),
          backwardWeight: chunks.map(({ backwardWeight }) => backwardWeight),
          communication: message,
          optimizer: end,
        },
      }).stepTime;
    const [fewer, more] = [2, 4].map((rounds) => rounds * candidate.pipeline) as [number, number];
    const hasAll = numMicroBatches <= more || candidate.schedule === 'gpipe';
    const peaks = peakActivations(scheduleOfStep(parallel, hasAll ? numMicroBatches : more), {
      untilInput: chunks.map(({ kept }) => kept),
      untilWeight: chunks.map(({ keptForWeight }) => keptForWeight),
    });
    const memoryBytes = Math.max(...peaks.map(({ size }, rank) => size + fixedBytes[rank]!));
    if (hasAll) return { seconds: seconds(numMicroBatches), memoryBytes };
    const [first, last] = [seconds(fewer), seconds(more)];
    const each = (last - first) / (more - fewer);
    return { seconds: last + (numMicroBatches - more) * each, memoryBytes };
  }

  async #composed(candidate: LayoutCandidate, schedule: '1f1b' | 'zb-h1'): Promise<Composed | undefined> {
    this.#model ??= describeModel(this.#options.configure(candidate));
    if (this.#model === undefined) return undefined;
    const parts = new Map<LayerKind, RecordedCosts>();
    for (const kind of new Set(this.#model.kinds)) {
      const recorded = await this.#recorded(candidate, { schedule, kind });
      if (recorded === undefined) return undefined;
      parts.set(kind, recorded);
    }
    return this.#compose(candidate, { recorded: parts, model: this.#model });
  }

  async #recorded(
    candidate: LayoutCandidate,
    { schedule, kind }: { readonly schedule: '1f1b' | 'zb-h1'; readonly kind: LayerKind },
  ): Promise<RecordedCosts | undefined> {
    const { microBatch, recomputation } = candidate;
    const settings = searchedSettings.filter(({ changesPasses }) => changesPasses);
    const numStages = candidate.pipeline === 1 ? 1 : 2;
    const key = [
      ...sizesOfMesh({ ...candidate, pipeline: numStages, data: 0 }),
      ...[microBatch, recomputation, ...settings.map((setting) => candidate[setting.key]), schedule],
      kind,
      ...(isOfExperts(kind) ? sizesOfExperts(candidate) : []),
    ].join(' ');
    if (!this.#parts.has(key)) {
      const configuration = this.#options.configure(candidate);
      const { profile } = this.#options;
      this.#parts.set(
        key,
        configuration && (await recordParts(configuration, { profile, numStages, schedule, kind })),
      );
    }
    return this.#parts.get(key);
  }

  #compose(
    candidate: LayoutCandidate,
    {
      recorded,
      model: { kinds, isTied },
    }: { readonly recorded: ReadonlyMap<LayerKind, RecordedCosts>; readonly model: SearchedModel },
  ): Composed {
    const { profile, numLayers, globalBatchSize } = this.#options;
    const { pipeline: p, chunks: v, data: d } = candidate;
    const numMicroBatches = globalBatchSize / d / candidate.microBatch;
    const mesh = layoutOfRecord(candidate);
    const groupNamed = rankGroups(mesh, profile.hardware.gpusPerNode.value);
    const groups = { dense: groupNamed('dense'), expert: groupNamed('expert') };
    const { divides } = storeOfStrategy(candidate.dataParallelShardingStrategy);
    const units = new UnitCosts({ divides, groups, profile });
    // embedding and head are equal in all recordings, so any recording can be used
    const [, parts] = [...recorded].find(([kind]) => isOfExperts(kind)) ?? [...recorded][0]!;
    const [first, last] = [units.withRoot(parts.first), units.withRoot(parts.last)];
    const layers = [...recorded].map(([kind, { layer }]) => [kind, units.withLayer(layer)] as const);
    const sumLayers = (chunk: number): PartCost => {
      const perChunk = numLayers / (p * v);
      const own = kinds.slice(chunk * perChunk, (chunk + 1) * perChunk);
      const scaled = layers.map(([kind, layer]) =>
        scaledPart(layer, own.filter((each) => each === kind).length),
      );
      return scaled.reduce(addParts);
    };
    const temporary = (stage: 'last' | 'others'): number =>
      Math.max(...[...recorded.values()].map((each) => each.temporary[stage]));
    const boundary = boundaryBytes(parts);
    const layer = layers.map(([, each]) => each).reduce((a, b) => (a.gradients > b.gradients ? a : b));
    const chunks = Array.from({ length: p * v }, (_, chunk) => {
      const all = [
        ...(chunk === 0 ? [keeping(first, -boundary)] : []),
        ...(chunk === p * v - 1 ? [keeping(last, boundary)] : []),
      ].reduce(addParts, sumLayers(chunk));
      return v === 1 ? all : units.withChange(all, layer);
    });
    const ranks = Array.from({ length: p }, (_, rank) => chunks.filter((__, chunk) => chunk % p === rank));
    const states = ranks.map((own) => own.reduce(addParts));
    const numParts = (view: MeshView, state: TrainingState): number =>
      divides.includes(state) ? numReplicas(mesh, view) : 1;
    const ownPart = (part: PartCost, state: TrainingState, whole: number): number => {
      if (!divides.includes(state)) return whole;
      const ofExperts = part.expertGradients / part.gradients;
      return whole * ((1 - ofExperts) / numParts('dense', state) + ofExperts / numParts('expert', state));
    };
    // if the optimizer's state is sharded, the work after the reduction is sharded, too
    const embedding = {
      bytes: parts.sharedBytes / numParts('dense', 'optimizer'),
      group: groupNamed('embedding'),
    };
    const fullest = states.reduce((a, b) => (a.gradients > b.gradients ? a : b));
    const rootOfRank = (rank: number): PartCost =>
      [...(rank === 0 ? [first] : []), ...(rank === p - 1 ? [last] : [])].reduce(
        addParts,
        scaledPart(first, 0),
      );
    return {
      chunks,
      numMicroBatches,
      ...estimateMessage(mesh, { parts, profile }),
      end:
        ownPart(fullest, 'optimizer', fullest.end) +
        collectiveSeconds({ collective: 'all-reduce', ...embedding }, profile) +
        units.endSeconds({ layer, root: rootOfRank(0), last: first }) +
        dataSeconds(candidate, { profile, fullest, groups }),
      fixedBytes: states.map(
        (state, rank) =>
          ownPart(state, 'parameters', state.parameters) +
          ownPart(state, 'gradients', state.gradients) +
          ownPart(state, 'optimizer', state.optimizer) +
          // counts a message that waits to be sent, and a message that was received
          (rank === p - 1 ? 1 : 2) * boundary +
          temporary(rank === p - 1 ? 'last' : 'others') +
          units.temporaryBytes({
            layer,
            root: rootOfRank(rank),
            tied: p === 1 && isTied ? first.gradients : 0,
            hasPrevious: numMicroBatches > 1,
          }),
      ),
    };
  }
}

/**
 * Returns the number of ranks over which gradients are summed, for the parameters of dense layers or of
 * experts.
 */
function numReplicas(mesh: AxisSizes, view: MeshView): number {
  const { sizes } = meshOfRun(mesh);
  return reductionAxes[view].reduce((product, axis) => product * sizes[axis], 1);
}

interface SearchedModel {
  /** The kind of each layer. */
  readonly kinds: readonly LayerKind[];
  /** True if the output head uses the weight of the embedding. */
  readonly isTied: boolean;
}

function describeModel(configuration: PretrainingConfiguration | undefined): SearchedModel | undefined {
  if (configuration === undefined) return undefined;
  const { model } = configuration;
  const kinds = Array.from({ length: model.numLayers }, (_, layer): LayerKind => {
    const window = windowOfLayer(model, layer) === undefined ? '' : ' with window';
    return `${hasExperts(model, layer) ? 'expert' : 'dense'}${window}`;
  });
  return { kinds, isTied: hasTiedHead(configuration) };
}

/** Returns the size in bytes of the tensor between two chunks. */
function boundaryBytes({ message }: RecordedCosts): number {
  return message === undefined ? 0 : (message.gather?.bytes ?? message.bytes);
}

/**
 * Returns `part` with its kept bytes changed by `bytes`. The recording of a pass contains its output, but not
 * its input, which existed before. The output is freed once it is sent. Therefore the first chunk keeps less.
 * The last chunk sends no output and keeps more.
 */
const keeping = (part: PartCost, bytes: number): PartCost => ({ ...part, kept: part.kept + bytes });

function estimateMessage(
  mesh: AxisSizes,
  { parts: { message }, profile }: { readonly parts: RecordedCosts; readonly profile: Profile },
): Pick<Composed, 'message' | 'gather'> {
  if (message === undefined) return { message: 0, gather: 0 };
  const isInside = isPipelineInside(mesh, profile.hardware.gpusPerNode.value);
  return {
    message: recordedMessageSeconds({ ...message, isInside }, profile),
    gather: message.gather === undefined ? 0 : collectiveSeconds(message.gather, profile),
  };
}

/**
 * Returns the time in seconds to reduce gradients in buckets of equal size and to gather parameters, once in
 * a step. Gradients of experts are reduced separately.
 */
function dataSeconds(
  { dataParallelShardingStrategy, overlapGradReduce, overlapParamGather }: LayoutCandidate,
  {
    profile,
    fullest,
    groups,
  }: Pick<RecordedEstimatesOptions, 'profile'> & {
    readonly fullest: PartCost;
    readonly groups: ReplicaGroups;
  },
): number {
  const { gradients, parameters, numBuckets, expertGradients, numExpertBuckets } = fullest;
  const ofExperts = expertGradients / gradients;
  const seconds = (
    collective: CollectiveOperation['collective'],
    { bytes, isOverlapped, behind }: { bytes: number; isOverlapped: boolean; behind: number },
  ): number => {
    const inBuckets = (whole: number, count: number, ranks: RankGroup): CollectiveOperation[] => {
      if (ranks.size === 1 || whole === 0) return [];
      const each = { kind: 'collective', name: collective, collective, group: ranks } as const;
      const number = Math.max(1, count);
      return Array.from({ length: number }, () => ({ ...each, bytes: whole / number }));
    };
    const operations = [
      ...inBuckets(bytes * (1 - ofExperts), numBuckets, groups.dense),
      ...inBuckets(bytes * ofExperts, numExpertBuckets, groups.expert),
    ];
    return exposedSeconds({ operations, isOverlapped }, { behind, profile });
  };
  const reduction = { bytes: gradients, isOverlapped: overlapGradReduce, behind: fullest.backward };
  const gather = { bytes: parameters, isOverlapped: overlapParamGather, behind: fullest.forward };
  const { divides } = storeOfStrategy(dataParallelShardingStrategy);
  if (!divides.includes('optimizer')) return seconds('all-reduce', reduction);
  return (
    (divides.includes('gradients') ? 0 : seconds('reduce-scatter', reduction)) +
    (divides.includes('parameters') ? 0 : seconds('all-gather', gather))
  );
}

/** Returns the largest number of micro-batches in flight on a rank, summed over its chunks. */
function mostInFlight(rank: number, { p, v, m }: { p: number; v: number; m: number }): number {
  if (v === 1) return Math.min(m, p - rank);
  return Math.min(m * v, 2 * (p - rank - 1) + (v - 1) * p + 1);
}
