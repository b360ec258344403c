import type { ProcessGroup, World } from '@mtl/comm';
import { ProcessMesh } from '@mtl/layout';
import { AdamwOptimizer, createStores, LossScaler, NumMicroBatches } from '@mtl/optimizer';
import { Pipeline } from '@mtl/pipeline';
import { interleaved, type PipelineSchedule } from '@mtl/pipeline/schedules';
import { type EvaluatedLoss, type LossKind, type StepMetrics, Trainer } from '../../src/index.js';
import { WeightStage } from '../weight-stage.js';

export interface TrainWeightsArgument {
  readonly pp: number;
  readonly dp: number;
  /** The loss that chunks 1 and 2 of four make of their output. */
  readonly ownLoss?: string;
  readonly weight?: number;
  readonly lossScale: number;
}

export interface TrainWeightsResult {
  readonly steps: readonly Pick<StepMetrics, 'loss' | 'otherLosses' | 'gradNorm'>[];
  readonly evaluated: EvaluatedLoss;
  /** The number of collectives in a step, by group. */
  readonly collectives: Readonly<Record<string, number>>;
}

const numSteps = 3;

const [numChunks, globalBatchSize] = [4, 8];

/** Trains four stages of one weight each on pp x dp ranks; the middle stages may have losses. */
export default async function trainWeights(
  world: World,
  { pp, dp, ownLoss, weight, lossScale }: TrainWeightsArgument,
): Promise<TrainWeightsResult> {
  const mesh = new ProcessMesh({ dp, pp });
  const group = (axis: 'dp' | 'pp', size: number) =>
    size === 1 ? undefined : world.createGroup({ name: axis, ranks: mesh.groupOf(world.rank, [axis]) });
  const [ofData, ofStages] = [group('dp', dp), group('pp', pp)];
  const groups = {
    ...(ofData && { dp: ofData }),
    ...(ofStages && { pp: ofStages }),
    ...(pp * dp > 1 && { world: world.group }),
  };
  const coordinates = mesh.coordinatesOf(world.rank);
  const schedule = (numMicroBatches: number) =>
    pp === 1
      ? inTurn(numMicroBatches)
      : interleaved({ numStages: pp, numMicroBatches, numChunks: numChunks / pp });
  const stages = new Map(
    schedule(pp).placement.flatMap((rank, chunk) => {
      if (rank !== coordinates.pp) return [];
      const isMiddle = chunk === 1 || chunk === 2;
      return [[chunk, new WeightStage({ chunk, numChunks, ownLoss: isMiddle ? ownLoss : undefined })]];
    }),
  );
  const parameters = [...stages.values()].map((stage) => stage.weight);
  const stores = createStores(parameters, { device: 'cpu', dtype: 'float32', groups, seed: 1 });
  const optimizer = new AdamwOptimizer(stores, {
    beta1: 0.9,
    beta2: 0.99,
    epsilon: 1e-8,
    weightDecay: 0,
    clipGrad: 0,
    groups,
  });
  const own: LossKind<readonly number[]> = {
    name: 'own_loss',
    per: 'number',
    // two stages make this loss
    count: (batch) => 2 * batch.length,
    isAuxiliary: true,
    weight,
  };
  const trainer = new Trainer<readonly number[]>({
    pipeline: new Pipeline({
      stages,
      schedule,
      group: ofStages,
      dtype: 'float32',
      device: 'cpu',
    }),
    optimizer,
    lossScaler: new LossScaler({ kind: 'constant', scale: lossScale }),
    device: 'cpu',
    sequenceLength: 2,
    flopsPerSample: 1,
    learningRate: () => 0.05,
    microBatches: new NumMicroBatches({ globalBatchSize, microBatchSize: 1, numShares: dp }),
    batches: samples(coordinates.dp, dp),
    losses: [
      { name: 'lm_loss', per: 'token', count: (batch) => batch.length },
      ...(weight === undefined ? [] : [own]),
    ],
    trainIterations: numSteps,
  });
  const evaluated = await trainer.evaluate(samples(coordinates.dp, dp), globalBatchSize / dp);
  const before = countCollectives(groups);
  const steps = [];
  for await (const { loss, otherLosses, gradNorm } of trainer)
    steps.push({ loss, gradNorm, ...(otherLosses && { otherLosses }) });
  const collectives = Object.fromEntries(
    Object.entries(countCollectives(groups)).map(([name, calls]) => [
      name,
      (calls - before[name]!) / numSteps,
    ]),
  );
  optimizer.dispose();
  return { steps, evaluated, collectives };
}

/**
 * Returns the number of collectives of all ranks of each group so far; messages between two ranks do not
 * count.
 */
function countCollectives(groups: Readonly<Record<string, ProcessGroup>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(groups).map(([name, group]) => {
      const { send, receive, ...collectives } = group.statistics();
      return [name, Object.values(collectives).reduce((sum, { calls }) => sum + calls, 0)];
    }),
  );
}

/** Returns a schedule with all chunks on one rank, one micro-batch after the other. */
function inTurn(numMicroBatches: number): PipelineSchedule {
  const chunks = Array.from({ length: numChunks }, (_, chunk) => chunk);
  const actions = Array.from({ length: numMicroBatches }, (_, microBatch) => [
    ...chunks.map((chunk) => ({ kind: 'F', chunk, microBatch }) as const),
    ...chunks.toReversed().map((chunk) => ({ kind: 'B', chunk, microBatch }) as const),
  ]).flat();
  return { name: 'in turn', numMicroBatches, placement: chunks.map(() => 0), actions: [actions] };
}

/** Yields samples with two or three numbers each, so that micro-batches count differently. */
async function* samples(rank: number, dp: number): AsyncGenerator<readonly number[]> {
  for (let sample = rank; ; sample += dp) {
    yield Array.from({ length: 2 + (sample % 2) }, (_, index) => 2 + ((sample * 5 + index * 3) % 7) / 8);
  }
}
