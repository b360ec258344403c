import type { PretrainingConfiguration } from '@mtl/configuration';
import {
  collectiveSeconds,
  estimateSeconds,
  type LayoutEstimate,
  operationsSeconds,
  type Profile,
  passSeconds,
} from '@mtl/planner';
import { recordRun } from '../record-run.js';
import type { LayoutCandidate } from './layout-candidates.js';

/** Seconds of one micro-batch and bytes of a part of the model on one rank. */
interface PartCost {
  readonly seconds: number;
  readonly endSeconds: number;
  /** Kept of a micro-batch from forward to backward. */
  readonly kept: number;
  readonly parameters: number;
  readonly gradients: number;
  readonly optimizer: number;
}

/** What all layouts with the same passes are composed of. */
interface RecordedParts {
  readonly layer: PartCost;
  /** The first stage without layers, and the last one. */
  readonly first: PartCost;
  readonly last: PartCost;
  /** What a pass adds to what is kept. */
  readonly temporary: number;
}

export interface RecordedEstimatesOptions {
  readonly profile: Profile;
  readonly numLayers: number;
  readonly globalBatchSize: number;
  /** The run of a candidate; undefined where it cannot be. */
  readonly configure: (candidate: LayoutCandidate) => PretrainingConfiguration | undefined;
}

/**
 * Estimates layouts from recordings of a pipeline of two stages with one and with two layers each: once for
 * each size of tensor parallelism and micro-batch, recomputation and sequence parallelism. Layers cost the
 * difference, embedding and head what is left. Layouts without a pipeline have recordings of one stage, on
 * which embedding and head share a tied weight.
 */
export class RecordedEstimates {
  readonly #options: RecordedEstimatesOptions;
  readonly #parts = new Map<string, RecordedParts | undefined>();

  constructor(options: RecordedEstimatesOptions) {
    this.#options = options;
  }

  /** Recordings that were made. */
  get numRecordings(): number {
    return this.#parts.size;
  }

  /** Undefined for a candidate that cannot be. */
  async estimate(candidate: LayoutCandidate): Promise<LayoutEstimate | undefined> {
    const { tensor, microBatch, recomputation, sequenceParallel } = candidate;
    const key = `${tensor} ${stagesOf(candidate)} ${microBatch} ${recomputation} ${sequenceParallel}`;
    if (!this.#parts.has(key)) this.#parts.set(key, await this.#record(candidate));
    const parts = this.#parts.get(key);
    return parts && this.#compose(candidate, parts);
  }

  async #record(candidate: LayoutCandidate): Promise<RecordedParts | undefined> {
    const configuration = this.#options.configure(candidate);
    if (configuration === undefined) return undefined;
    const numStages = stagesOf(candidate);
    const small = await this.#costs(configuration, { numStages, layersOfStage: 1 });
    const large = await this.#costs(configuration, { numStages, layersOfStage: 2 });
    const layer = combined(large.first, small.first, (a, b) => a - b);
    return {
      layer,
      first: combined(small.first, layer, (a, b) => a - b),
      last: numStages === 1 ? scaled(layer, 0) : combined(small.last, layer, (a, b) => a - b),
      temporary: Math.max(small.temporary, large.temporary),
    };
  }

  /** Of the first stage and the last one. */
  async #costs(configuration: PretrainingConfiguration, sizes: ProxySizes) {
    const { profile } = this.#options;
    const { hardware } = profile;
    const run = await recordRun(proxyOf(configuration, sizes), {
      gpusPerNode: hardware.gpusPerNode.value,
      isRun: ({ tp }) => tp === 0,
    });
    const cost = (stage: number): PartCost => {
      const passes = run.step.chunks[stage]!;
      const { memoryByKind } = run.ranks.find(({ coordinates }) => coordinates.pp === stage)!;
      const { parameters, gradients, optimizer } = memoryByKind;
      const kernels = run.step.ends[stage]!.operations.filter(({ kind }) => kind !== 'collective');
      return {
        seconds: (['F', 'B'] as const).reduce(
          (sum, kind) => sum + passSeconds(operationsSeconds(passes[kind] ?? [], profile)),
          0,
        ),
        endSeconds: passSeconds(operationsSeconds(kernels, profile)),
        kept: run.keptBytes[stage]!,
        parameters,
        gradients,
        optimizer,
      };
    };
    const temporary = Math.max(...run.ranks.map(({ memoryByKind }) => memoryByKind.temporary));
    return { first: cost(0), last: cost(sizes.numStages - 1), temporary };
  }

  #compose(candidate: LayoutCandidate, parts: RecordedParts): LayoutEstimate {
    const { profile, numLayers, globalBatchSize } = this.#options;
    const { pipeline: p, chunks: v, data: d } = candidate;
    const numMicroBatches = globalBatchSize / d / candidate.microBatch;
    const perChunk = numLayers / (p * v);
    const layers = scaled(parts.layer, perChunk);
    const chunks = Array.from({ length: p * v }, (_, chunk) =>
      [...(chunk === 0 ? [parts.first] : []), ...(chunk === p * v - 1 ? [parts.last] : [])].reduce(
        add,
        layers,
      ),
    );
    const ranks = Array.from({ length: p }, (_, rank) => chunks.filter((__, chunk) => chunk % p === rank));
    const states = ranks.map((own) => own.reduce(add));
    const memory = ranks.map((own, rank) => {
      const { parameters, gradients, optimizer } = states[rank]!;
      const inFlight =
        candidate.schedule === 'gpipe' ? numMicroBatches : mostInFlight(rank, { p, v, m: numMicroBatches });
      const kept = (own.reduce((sum, chunk) => sum + chunk.kept, 0) / v) * inFlight;
      const shared = optimizer / (candidate.distributedOptimizer ? d : 1);
      return parameters + gradients + shared + kept + parts.temporary;
    });
    const [state] = [states.reduce((a, b) => (a.gradients > b.gradients ? a : b))];
    const seconds = estimateSeconds({
      chunks: chunks.map((chunk) => chunk.seconds),
      pipeline: p,
      numMicroBatches,
      bubble: candidate.schedule === 'zb-h1' ? 0.5 : 1,
      message: 0,
      end:
        state.endSeconds / (candidate.distributedOptimizer ? d : 1) +
        this.#reduction(candidate, { profile, state }),
    });
    return { seconds, memoryBytes: Math.max(...memory) };
  }

  #reduction(
    { tensor, data, distributedOptimizer }: LayoutCandidate,
    { profile, state }: { readonly profile: Profile; readonly state: PartCost },
  ): number {
    if (data === 1) return 0;
    const perNode = Math.min(data, Math.max(1, Math.floor(profile.hardware.gpusPerNode.value / tensor)));
    const group = { axis: 'data', size: data, perNode } as const;
    const collective = distributedOptimizer ? 'reduce-scatter' : 'all-reduce';
    const reduction = collectiveSeconds({ collective, bytes: state.gradients, group }, profile);
    if (!distributedOptimizer) return reduction;
    const gather = { collective: 'all-gather', bytes: state.parameters, group } as const;
    return reduction + collectiveSeconds(gather, profile);
  }
}

interface ProxySizes {
  readonly numStages: number;
  readonly layersOfStage: number;
}

/** Of the recording that a candidate is estimated from. */
const stagesOf = ({ pipeline }: LayoutCandidate): number => (pipeline === 1 ? 1 : 2);

function proxyOf(
  configuration: PretrainingConfiguration,
  { numStages, layersOfStage }: ProxySizes,
): PretrainingConfiguration {
  const { parallel, training, model } = configuration;
  const { rampup: _, ...rest } = training;
  return {
    ...configuration,
    model: { ...model, numLayers: numStages * layersOfStage },
    training: { ...rest, numMicroBatches: 2, globalBatchSize: 2 * training.microBatchSize },
    parallel: {
      ...parallel,
      worldSize: numStages * parallel.tensorModelParallelSize,
      dataParallelSize: 1,
      pipelineModelParallelSize: numStages,
      numVirtualStages: 1,
      pipelineSchedule: '1f1b',
      useDistributedOptimizer: false,
      overlapGradReduce: false,
      overlapParamGather: false,
    },
  };
}

/** Most micro-batches in flight on a rank, counted on each of its chunks. */
function mostInFlight(rank: number, { p, v, m }: { p: number; v: number; m: number }): number {
  if (v === 1) return Math.min(m, p - rank);
  return Math.min(m * v, 2 * (p - rank - 1) + (v - 1) * p + 1);
}

function combined(a: PartCost, b: PartCost, operation: (x: number, y: number) => number): PartCost {
  const entries = Object.entries(a).map(([key, value]: [string, number]) => [
    key,
    operation(value, b[key as keyof PartCost]),
  ]);
  return Object.fromEntries(entries) as unknown as PartCost;
}

const add = (a: PartCost, b: PartCost): PartCost => combined(a, b, (x, y) => x + y);

const scaled = (a: PartCost, factor: number): PartCost => combined(a, a, (x) => x * factor);
