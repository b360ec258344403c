import { findCheckpoint, loadCheckpoint } from '@mtl/checkpoint';
import type { World } from '@mtl/comm';
import { ProcessMesh } from '@mtl/layout';
import { Adamw, createStores, LossScaler, ModelOptimizer, NumMicroBatches } from '@mtl/optimizer';
import type { StepRerunOptions } from '../../src/extensions/step-rerun.js';
import {
  optimizerTensors,
  readTrainingState,
  runTraining,
  SpikeGuard,
  type SpikeGuardOptions,
  type StepMetrics,
  StepRerun,
  Trainer,
  type TrainingProgress,
  type TrainingResult,
  weightTensors,
} from '../../src/index.js';
import { type BigramBatch, BigramStage, onePiece } from '../bigram-stage.js';
import { MomentumSgd } from '../momentum-sgd.js';
import { type StandingRun, serveRuns } from '../support/standing-ranks.js';

export interface TrainBigramsArgument {
  readonly dp: number;
  readonly distributed: boolean;
  readonly overlap: boolean;
  readonly dtype: 'float32' | 'bfloat16';
  readonly trainIterations: number;
  /** Trains with `MomentumSgd` instead of AdamW. */
  readonly momentum?: number;
  /** The directory to save to at the end. */
  readonly save?: string;
  /** The directory to continue from. */
  readonly load?: string;
  /** A rank that gets a SIGTERM in this iteration, in addition to the others. */
  readonly signalAt?: { readonly rank: number; readonly iteration: number };
  /** A rank whose data ends after this number of micro-batches. */
  readonly dataEnd?: { readonly rank: number; readonly microBatches: number };
  /** Injected fault: rank 1 counts one token less in each micro-batch. */
  readonly shrinkTokenCount?: boolean;
  /** True if spikes are refused; the window of these runs has eight steps. */
  readonly spikes?: Pick<SpikeGuardOptions, 'policy'>;
  /** Injected fault: in one iteration, hidden states, and therefore gradients, are multiplied. */
  readonly boost?: { readonly iteration: number; readonly factor: number };
  /** The steps that are computed again. */
  readonly rerun?: StepRerunOptions['mode'];
  /** Injected fault: a bit of a gradient of this rank flips the first time that the iteration is computed. */
  readonly flip?: { readonly rank: number; readonly iteration: number };
  /** Injected fault: every rank reads the samples of rank 0. */
  readonly sameSamples?: boolean;
}

export interface TrainBigramsResult {
  readonly steps: readonly StepMetrics[];
  readonly validation: readonly number[];
  readonly result: TrainingResult;
  readonly modelBits: Uint8Array;
}

// 24 x 24 values: the slices of four ranks end within rows
const size = 24;
const globalBatchSize = 8;

/** Returns sample n: one to three tokens and their successors, so that micro-batches weigh differently. */
function makeBatch(sample: number): BigramBatch {
  const tokens = Array.from({ length: 1 + (sample % 3) }, (_, index) => (sample * 5 + index * 7) % size);
  return { tokens, labels: tokens.map((token) => (token * 5 + 2) % size) };
}

interface Share {
  readonly rank: number;
  readonly dp: number;
  readonly from?: number;
  readonly count?: number;
}

/** Yields the micro-batches (of one sample) of a rank: every chunk of dp samples has one for each rank. */
async function* batches({ rank, dp, from = 0, count = Number.POSITIVE_INFINITY }: Share) {
  for (let chunk = 0; chunk < count; chunk++) yield makeBatch(from + chunk * dp + rank);
}

/** Yields the micro-batches of a rank; hidden states of one iteration are multiplied. */
async function* boosted(
  all: AsyncGenerator<BigramBatch>,
  { stage, dp, boost }: { stage: BigramStage; dp: number; boost: TrainBigramsArgument['boost'] },
): AsyncGenerator<BigramBatch> {
  let numTaken = 0;
  for await (const batch of all) {
    const iteration = Math.floor((numTaken * dp) / globalBatchSize) + 1;
    stage.boost = iteration === boost?.iteration ? boost.factor : 1;
    numTaken += 1;
    yield batch;
  }
}

/** Trains the bigram model as one rank of `StandingRanks`, once per request. */
export default (world: World, channel: string): Promise<void> =>
  serveRuns(world, { channel, run: trainBigrams });

/** Trains the bigram model as one data-parallel rank. */
async function trainBigrams({
  world,
  id,
  argument,
}: StandingRun<TrainBigramsArgument>): Promise<TrainBigramsResult> {
  const { dp, distributed, overlap, dtype, trainIterations, save, signalAt, dataEnd } = argument;
  const mesh = new ProcessMesh({ dp });
  const rank = world.rank;
  const groups =
    dp === 1
      ? {}
      : {
          dp: world.createGroup({ name: `dp ${id}`, ranks: mesh.groupOf(rank, ['dp']) }),
          world: world.createGroup({ name: `world ${id}`, ranks: mesh.groupOf(rank, ['dp']) }),
        };
  const stage = new BigramStage(size);
  const kind = distributed ? 'zero1' : 'replicated';
  const stores = createStores([stage.head], { kind, device: 'cpu', dtype, groups, seed: 1 });
  const { momentum } = argument;
  const optimizer = new ModelOptimizer(stores, {
    optimizer:
      momentum === undefined
        ? new Adamw({ beta1: 0.9, beta2: 0.99, epsilon: 1e-8 })
        : new MomentumSgd({ momentum }),
    weightDecay: 0.01,
    clipGrad: 1,
    groups,
    overlapGradientReduction: overlap,
    overlapParameterGather: overlap,
  });
  const lossScaler = new LossScaler({ kind: 'constant', scale: 1 });
  const progress = await resume(argument, { optimizer, lossScaler });
  const share = { rank: argument.sameSamples ? 0 : rank, dp };
  const isShort = dataEnd?.rank === rank;
  const pipeline = onePiece(stage);
  const { spikes, boost } = argument;
  const guard = spikes && new SpikeGuard({ ...spikes, window: 8, factor: 10, limit: 3 });
  const rerun = argument.rerun && new StepRerun({ mode: argument.rerun, hosts: ['first', 'second'] });
  const trainer = new Trainer<BigramBatch>({
    pipeline,
    optimizer,
    lossScaler,
    device: 'cpu',
    sequenceLength: 2,
    flopsPerSample: 100,
    learningRate: () => 0.05,
    microBatches: new NumMicroBatches({ globalBatchSize, microBatchSize: 1, numShares: dp }),
    batches: boosted(
      batches({
        ...share,
        from: progress?.consumedSamples ?? 0,
        ...(isShort ? { count: dataEnd.microBatches } : {}),
      }),
      { stage, dp, boost },
    ),
    extensions: [guard, rerun].filter((extension) => extension !== undefined),
    losses: [
      {
        name: 'lm_loss',
        per: 'token',
        count: ({ tokens }) => tokens.length - (argument.shrinkTokenCount && rank === 1 ? 0.5 : 0),
      },
    ],
    trainIterations,
    ...(progress === undefined ? {} : { progress }),
  });
  const { flip } = argument;
  if (flip?.rank === rank) flipOnce(optimizer, () => trainer.progress.iteration + 1 === flip.iteration);
  const steps: StepMetrics[] = [];
  const validation: number[] = [];
  const signals = {
    get received() {
      const isDue = signalAt?.rank === rank && trainer.progress.iteration >= signalAt.iteration;
      return isDue ? ('SIGTERM' as const) : undefined;
    },
  };
  const result = await runTraining<BigramBatch>({
    trainer,
    optimizer,
    lossScaler,
    signals,
    reporters: [{ step: (step) => steps.push(step), validation: ({ loss }) => validation.push(loss) }],
    save:
      save === undefined
        ? undefined
        : { directory: save, interval: undefined, keepLast: undefined, configuration: {} },
    evaluation: { interval: 5, numMicroBatches: 12 / dp, open: () => batches({ ...share, from: 100 }) },
  });
  // reading the parameter waits for its pending gather
  stage.head.data.dim(0);
  const modelBits = new Uint8Array(stage.head.data.read().buffer.slice(0));
  optimizer.dispose();
  return { steps, validation, result, modelBits };
}

async function resume(
  { load }: TrainBigramsArgument,
  { optimizer, lossScaler }: { optimizer: ModelOptimizer; lossScaler: LossScaler },
): Promise<TrainingProgress | undefined> {
  if (load === undefined) return undefined;
  const found = await findCheckpoint({ directory: load, onNotice: () => {} });
  if (found.kind !== 'found') throw new Error(`no checkpoint in ${load}`);
  const { checkpoint } = found;
  await loadCheckpoint({
    checkpoint,
    tensors: [...weightTensors(optimizer), ...optimizerTensors(optimizer)],
  });
  optimizer.refreshModel();
  const state = readTrainingState(checkpoint.state, checkpoint.path);
  optimizer.numSteps = state.optimizerSteps;
  lossScaler.loadState(state.lossScaler);
  return state.progress;
}

/**
 * Flips the highest bit of the exponent of one gradient before it is reduced, the first time that it is due.
 */
function flipOnce(optimizer: ModelOptimizer, isDue: () => boolean): void {
  const [store] = optimizer.stores;
  const reduce = optimizer.reduceGradients.bind(optimizer);
  let isDone = false;
  optimizer.reduceGradients = () => {
    if (!isDone && isDue()) {
      using gradient = store!.gradient({ start: 7, end: 8 });
      const values = gradient.read<'float32'>();
      new Uint32Array(values.buffer, values.byteOffset)[0]! ^= 1 << 30;
      gradient.write(values);
      isDone = true;
    }
    reduce();
  };
}
