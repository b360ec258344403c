import type { World } from '@mtl/comm';
import { memoryStatistics, numLiveTensors, resetPeakMemory } from '@mtl/kernels';
import { ProcessMesh } from '@mtl/layout';
import { Pipeline } from '../../src/index.js';
import { buildSchedule, oneStage, type PipelineSchedule, parseScheduleCsv } from '../../src/schedules.js';
import { affineBatches } from '../support/affine-chain.js';
import { AffineStage, type KeptElements, LiveCount } from '../support/affine-stage.js';

/** One step of the chain on the ranks of a world. */
export interface ChainCase {
  /** The name of a schedule, the text of a CSV file, or a schedule. */
  readonly schedule: string | PipelineSchedule;
  readonly numStages: number;
  readonly numMicroBatches: number;
  readonly numChunks?: number | undefined;
  readonly numReplicas: number;
  /** The number of elements of a micro-batch. */
  readonly size: number;
  readonly kept?: KeptElements;
}

/** The state of a rank after the steps. */
export interface RankResult {
  readonly chunks: ReadonlyArray<{
    readonly chunk: number;
    readonly factor: number;
    readonly offset: number;
  }>;
  /** The losses by micro-batch; empty except on the rank with the last chunk. */
  readonly losses: readonly number[];
  readonly evaluated: readonly number[];
  readonly lastRank: number;
  /** The calls of `beforeLastBackward`: the chunk, and its number of finished micro-batches at that time. */
  readonly announced: ReadonlyArray<{ readonly chunk: number; readonly numDone: number }>;
  /**
   * The number of tensors that the step left behind; 0 if ranks are threads, which count their tensors
   * together.
   */
  readonly numLeft: number;
  /** The bytes that this rank sent to other ranks of the pipeline in the training step. */
  readonly sentBytes: number;
  /** The peak of activations alive at one time in the training step. */
  readonly peak: LiveCount['peak'];
  /** The peak of bytes allocated by this process in the training step. */
  readonly peakBytes: number;
}

export const lossFactor = 1 / 8;
const lossFactors = { loss: lossFactor };

export function makeSchedule(
  { schedule, numStages, numChunks }: ChainCase,
  numMicroBatches: number,
): PipelineSchedule {
  if (typeof schedule !== 'string') return schedule;
  if (schedule.includes(',')) return parseScheduleCsv(schedule, { name: 'own.csv' });
  if (numStages === 1) return oneStage(numMicroBatches);
  return buildSchedule(schedule, { numStages, numMicroBatches, numChunks });
}

/**
 * Runs the cases one after the other. A case with s stages and t replicas runs on the first s t ranks of the
 * world; the other ranks return no result for the case.
 */
export default function runAffineChain(
  world: World,
  cases: readonly ChainCase[],
): (RankResult | undefined)[] {
  return cases.map((chainCase, index) =>
    world.rank < countRanks(chainCase) ? runCase(world, { ...chainCase, index }) : undefined,
  );
}

export const countRanks = ({ numStages, numReplicas }: ChainCase): number => numStages * numReplicas;

/** @param chainCase.index distinguishes the groups of cases with the same members */
function runCase(world: World, chainCase: ChainCase & { readonly index: number }): RankResult {
  const { numStages, numMicroBatches, numReplicas, size } = chainCase;
  const mesh = new ProcessMesh({ tp: numReplicas, pp: numStages });
  const group = (axis: 'tp' | 'pp', length: number) =>
    length === 1
      ? undefined
      : world.createGroup({
          name: `${axis} ${chainCase.index}`,
          ranks: mesh.groupOf(world.rank, [axis]),
        });
  const [pipelineGroup, replicas] = [group('pp', numStages), group('tp', numReplicas)];
  const { placement } = makeSchedule(chainCase, numMicroBatches);
  const rank = pipelineGroup?.rank ?? 0;
  const live = new LiveCount();
  const stages = new Map(
    placement.flatMap((home, chunk) =>
      home === rank
        ? [
            [
              chunk,
              new AffineStage({ chunk, numChunks: placement.length, kept: chainCase.kept, live }),
            ] as const,
          ]
        : [],
    ),
  );
  const numLive = numLiveTensors();
  const pipeline = new Pipeline({
    stages,
    schedule: (count) => makeSchedule(chainCase, count),
    group: pipelineGroup,
    replicas,
    dtype: 'float64',
    device: 'cpu',
  });
  const sums =
    (into: number[]) =>
    (loss: { losses: { toArray(): number[] }; weights: { toArray(): number[] } }, microBatch: number) => {
      const weights = loss.weights.toArray();
      into[microBatch] = loss.losses
        .toArray()
        .reduce((sum, value, index) => sum + value * weights[index]!, 0);
    };
  const losses: number[] = [];
  const evaluated: number[] = [];
  const announced: Array<{ chunk: number; numDone: number }> = [];
  const batches = affineBatches(numMicroBatches, size);
  pipeline.evaluate({ batches, lossFactors, onLoss: sums(evaluated) });
  const sentBytes = (): number => pipelineGroup?.statistics().send.sentBytes ?? 0;
  const [sentBefore, bytesBefore] = [sentBytes(), memoryStatistics('cpu').bytesInUse];
  resetPeakMemory('cpu');
  pipeline.run({
    batches,
    lossFactors,
    onLoss: sums(losses),
    beforeLastBackward: (chunk) => {
      announced.push({ chunk, numDone: numMicroBatches - stages.get(chunk)!.numInFlight });
    },
  });
  const numLeft = world.group.engine === 'memory' ? 0 : numLiveTensors() - numLive;
  const peakBytes = memoryStatistics('cpu').peakBytes - bytesBefore;
  const sent = sentBytes() - sentBefore;
  pipelineGroup?.close();
  replicas?.close();
  return {
    chunks: [...stages].map(([chunk, { gradients }]) => ({ chunk, ...gradients })),
    losses,
    evaluated,
    announced,
    numLeft,
    sentBytes: sent,
    peak: live.peak,
    peakBytes,
    lastRank: pipeline.lastRank,
  };
}
