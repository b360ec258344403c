import type { PretrainingConfiguration } from '@mtl/configuration';
import {
  copyOfModel,
  layoutOfRecord,
  meshOfRun,
  recordedSizes,
  undivided,
  withoutExperts,
} from '@mtl/configuration/internal';
import type { Profile, RecordedMessage } from '@mtl/cost-model';
import { operationsSeconds, passSeconds } from '@mtl/cost-model/internal';
import { isFirstOfStage } from '@mtl/layout';
import { findRecipe } from '@mtl/runs/internal';
import { recordRun, smallestBucket } from '../record-run.js';

/** Time and memory of a part of the model on one rank. */
export interface PartCost {
  /** Seconds of one micro-batch. */
  readonly forward: number;
  readonly backward: number;
  /** Seconds of the halves of backward; 0 where it is whole. */
  readonly backwardInput: number;
  readonly backwardWeight: number;
  /** Seconds of norm and update. */
  readonly end: number;
  /** Number of buckets in which ranks with copies reduce its gradients. */
  readonly numBuckets: number;
  /** Bytes that a micro-batch keeps from forward to backward. */
  readonly kept: number;
  /** The part of `kept` that is kept for the weight half of backward. */
  readonly keptForWeight: number;
  readonly parameters: number;
  readonly gradients: number;
  readonly optimizer: number;
  /** Gradients of experts, which other ranks reduce, and the number of their buckets. */
  readonly expertGradients: number;
  readonly numExpertBuckets: number;
}

/** The two kinds of layers of a model. */
export type LayerKind = 'dense' | 'expert';

/** Costs from which all layouts with the same passes are composed. */
export interface RecordedCosts {
  readonly layer: PartCost;
  /** The first stage and the last stage, without layers. */
  readonly first: PartCost;
  readonly last: PartCost;
  /** Bytes that a pass adds to the kept bytes, on the last stage and on the others. */
  readonly temporary: { readonly last: number; readonly others: number };
  /** Absent without a pipeline. */
  readonly message: RecordedMessage | undefined;
  /** Bytes of a tied embedding's gradients, which the first and the last stage sum. */
  readonly sharedBytes: number;
}

interface RecordPartsOptions {
  readonly profile: Profile;
  /** Number of stages of the recorded runs: 2, or 1 for layouts without a pipeline. */
  readonly numStages: number;
  readonly schedule: '1f1b' | 'zb-h1';
  readonly kind: LayerKind;
}

/**
 * Records runs with one and with two layers of one kind on each stage. The difference is the cost of a layer;
 * the rest is the cost of embedding and head. Without a pipeline, embedding and head are on one stage and
 * share a tied weight.
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

/** Returns the costs of the first stage and the last one. */
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
 * Returns the data-parallel size of a proxy: at least two, since the number of buckets does not depend on the
 * size, and large enough that each expert has two copies.
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
  const layout = kind === 'expert' ? parallel : withoutExperts(parallel);
  // numbers of ranks of a stage that hold a copy of the model, and a copy of its experts
  const { size } = copyOfModel(parallel);
  const copy = size / parallel.pipelineModelParallelSize;
  const experts = meshOfRun(parallel).numShards('expert') / parallel.pipelineModelParallelSize;
  const dataSize = kind === 'expert' ? chooseDataSize(copy, experts) : 2;
  const ofKind = {
    ...model,
    numLayers: numStages * layersOfStage,
    ...(kind === 'expert' ? { moeLayerFreq: 1 } : { numExperts: undefined }),
  };
  // the model of --load-hf has another number of layers; the vocabulary size is in the configuration already
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

/** Combines costs field by field. */
function combined(a: PartCost, b: PartCost, operation: (x: number, y: number) => number): PartCost {
  const entries = Object.entries(a).map(([key, value]: [string, number]) => [
    key,
    operation(value, b[key as keyof PartCost]),
  ]);
  return Object.fromEntries(entries) as unknown as PartCost;
}

export const addParts = (a: PartCost, b: PartCost): PartCost => combined(a, b, (x, y) => x + y);

export const scaledPart = (a: PartCost, factor: number): PartCost => combined(a, a, (x) => x * factor);
