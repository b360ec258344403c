import type { PretrainingConfiguration } from '@mtl/configuration';
import {
  copyOfModel,
  layoutOfRecord,
  meshOfRun,
  recordedSizes,
  undivided,
  withoutExperts,
} from '@mtl/configuration/strategies';
import { operationsSeconds, type Profile, passSeconds, type RecordedMessage } from '@mtl/cost-model';
import { isFirstOfStage } from '@mtl/layout';
import { windowOfAllLayers } from '@mtl/models/internal';
import { findRecipe } from '@mtl/runs/internal';
import { recordRun, smallestBucket } from '../record-run.js';

/** The time and memory of a layer, or of embedding and head, on one rank. */
export interface PartCost {
  /** Seconds of the passes of a micro-batch. */
  readonly forward: number;
  readonly backward: number;
  /**
   * Seconds of the backward pass's input half. If the backward pass is not split, `backwardInput` and
   * `backwardWeight` are 0.
   */
  readonly backwardInput: number;
  readonly backwardWeight: number;
  /** Seconds that the gradient norm and the update take. */
  readonly end: number;
  /** The number of buckets in which replicas reduce the gradients. */
  readonly numBuckets: number;
  /** Bytes that a micro-batch keeps from the forward to the backward pass. */
  readonly kept: number;
  /** The part of `kept` that is kept until weight gradients are computed. */
  readonly keptForWeight: number;
  readonly parameters: number;
  readonly gradients: number;
  readonly optimizer: number;
  /**
   * Bytes of the expert gradients, which are reduced in a separate group. `numExpertBuckets` is the number of
   * their buckets.
   */
  readonly expertGradients: number;
  readonly numExpertBuckets: number;
}

/**
 * The kinds of layers in a model: with or without experts, and with or without the model's attention window.
 */
export type LayerKind = `${'dense' | 'expert'}${'' | ' with window'}`;

/** Returns true if layers of the given kind have experts. */
export const isOfExperts = (kind: LayerKind): boolean => kind.startsWith('expert');

/** Returns the options of a model whose layers are all of the given kind. */
const modelOfKind = (kind: LayerKind) => ({
  ...(isOfExperts(kind) ? { moeLayerFreq: 1 } : { numExperts: undefined }),
  ...windowOfAllLayers(kind.endsWith('window')),
});

/** The costs of a recorded run's parts. The cost of any layout with the same passes is composed from them. */
export interface RecordedCosts {
  readonly layer: PartCost;
  /** The costs of the first and the last stage without their layers. */
  readonly first: PartCost;
  readonly last: PartCost;
  /** Bytes that a pass needs temporarily, on the last stage and on other stages. */
  readonly temporary: { readonly last: number; readonly others: number };
  /** The message between stages; absent without a pipeline. */
  readonly message: RecordedMessage | undefined;
  /** Bytes of a tied embedding's gradients, which are summed over the first and the last stage. */
  readonly sharedBytes: number;
}

interface RecordPartsOptions {
  readonly profile: Profile;
  /** The number of stages in the recorded runs: 2, or 1 for layouts without a pipeline. */
  readonly numStages: number;
  readonly schedule: '1f1b' | 'zb-h1';
  readonly kind: LayerKind;
}

/**
 * Records runs with one and with two layers of the given kind on each stage. The difference is the cost of a
 * layer, and the rest is the cost of embedding and head. Without a pipeline, embedding and head are on the
 * same stage and share a tied weight.
 */
export async function recordParts(
  configuration: PretrainingConfiguration,
  options: RecordPartsOptions,
): Promise<RecordedCosts> {
  const small = await measureEnds(configuration, { ...options, layersOfStage: 1 });
  const large = await measureEnds(configuration, { ...options, layersOfStage: 2 });
  const layer = combined(large.first, small.first, (a, b) => a - b);
  return {
    layer,
    first: combined(small.first, layer, (a, b) => a - b),
    last: options.numStages === 1 ? scaledPart(layer, 0) : combined(small.last, layer, (a, b) => a - b),
    temporary: {
      last: Math.max(small.last.temporary, large.last.temporary),
      others: Math.max(small.first.temporary, large.first.temporary),
    },
    message: small.message,
    sharedBytes: small.sharedBytes,
  };
}

interface ProxySizes extends Pick<RecordPartsOptions, 'numStages' | 'schedule' | 'kind'> {
  readonly layersOfStage: number;
}

/** Returns the costs of the first and the last stage. */
async function measureEnds(
  configuration: PretrainingConfiguration,
  { profile, ...sizes }: Pick<RecordPartsOptions, 'profile'> & ProxySizes,
) {
  const proxy = makeProxy(configuration, sizes);
  const run = await recordRun(proxy, {
    gpusPerNode: profile.hardware.gpusPerNode.value,
    hasRowSumRates: profile.hardware.state === 'measured',
    isRun: isFirstOfStage,
    withUneven: false,
  });
  const cost = (stage: number): PartCost & { readonly temporary: number } => {
    const passes = run.step.chunks[stage]!;
    const { memoryByKind } = run.ranks.find(({ coordinates }) => coordinates.pp === stage)!;
    const { parameters, gradients, optimizer, temporary } = memoryByKind;
    const { operations, reduction } = run.step.ends[stage]!;
    const ofExperts = reduction.operations.filter(({ group }) => group.role === 'expert');
    const seconds = (all: typeof operations = []): number => passSeconds(operationsSeconds(all, profile));
    return {
      forward: seconds(passes.F),
      backward: seconds(passes.B) + seconds(passes.I) + seconds(passes.W),
      backwardInput: seconds(passes.I),
      backwardWeight: seconds(passes.W),
      end: seconds(operations.filter(({ kind }) => kind !== 'collective')),
      numBuckets: reduction.operations.length - ofExperts.length,
      kept: run.keptBytes[stage]!,
      keptForWeight: run.keptForWeightBytes[stage] ?? 0,
      parameters,
      gradients,
      optimizer,
      expertGradients: ofExperts.reduce((sum, { bytes }) => sum + bytes, 0),
      numExpertBuckets: ofExperts.length,
      temporary,
    };
  };
  const sharedBytes = run.step.ends[0]!.operations.reduce(
    (sum, operation) =>
      operation.kind === 'collective' && operation.group.axis === 'pp' && operation.bytes >= smallestBucket
        ? sum + operation.bytes
        : sum,
    0,
  );
  return { first: cost(0), last: cost(sizes.numStages - 1), message: run.step.message, sharedBytes };
}

/**
 * Returns the data-parallel size of a recorded run. It is at least two, because from two on, the number of
 * buckets does not depend on the size. It is also large enough that each expert has two replicas.
 */
function chooseDataSize(copy: number, expert: number): number {
  let size = 2;
  while ((copy * size) % (2 * expert) !== 0) size += 1;
  return size;
}

function makeProxy(
  configuration: PretrainingConfiguration,
  { numStages, layersOfStage, schedule, kind }: ProxySizes,
): PretrainingConfiguration {
  const { parallel, training, model } = configuration;
  const { rampup: _, ...rest } = training;
  const numMicroBatches = 2;
  const layout = isOfExperts(kind) ? parallel : withoutExperts(parallel);
  // the number of ranks in a stage for one replica of the model, and for one replica of its experts
  const { size } = copyOfModel(parallel);
  const copy = size / parallel.pipelineModelParallelSize;
  const experts = meshOfRun(parallel).numShards('expert') / parallel.pipelineModelParallelSize;
  const dataSize = isOfExperts(kind) ? chooseDataSize(copy, experts) : 2;
  const ofKind = {
    ...model,
    numLayers: numStages * layersOfStage,
    ...modelOfKind(kind),
  };
  // --load-hf is removed, because the model in its checkpoint has a different number of layers; the
  // vocabulary size is already known
  const { loadHuggingFace: __, ...checkpoint } = configuration.checkpoint;
  const adapted = findRecipe(configuration).adapters.selectAmongLayers({ ...configuration, model: ofKind });
  return {
    ...configuration,
    checkpoint,
    model: ofKind,
    ...adapted,
    training: {
      ...rest,
      numMicroBatches,
      globalBatchSize: numMicroBatches * dataSize * training.microBatchSize,
    },
    parallel: {
      ...undivided(layout),
      ...layoutOfRecord({ ...recordedSizes(layout), data: dataSize, pipeline: numStages }),
      worldSize: numStages * dataSize * copy,
      numVirtualStages: 1,
      pipelineSchedule: schedule,
    },
  };
}

/** Combines two costs, field by field. */
function combined(a: PartCost, b: PartCost, operation: (x: number, y: number) => number): PartCost {
  const entries = Object.entries(a).map(([key, value]: [string, number]) => [
    key,
    operation(value, b[key as keyof PartCost]),
  ]);
  return Object.fromEntries(entries) as unknown as PartCost;
}

export const addParts = (a: PartCost, b: PartCost): PartCost => combined(a, b, (x, y) => x + y);

export const scaledPart = (a: PartCost, factor: number): PartCost => combined(a, a, (x) => x * factor);
