import type { Parameter } from '@mtl/autograd';
import { type EmulationCounts, emulationCounts, hasEmulationCounts } from '@mtl/cuda-emulation/counts';
import { memoryStatistics } from '@mtl/kernels';
import { AdamwOptimizer, createStores, LossScaler, NumMicroBatches } from '@mtl/optimizer';
import { GraphedStage, Pipeline, type Stage } from '@mtl/pipeline';
import { oneStage, type PipelineSchedule } from '@mtl/pipeline/schedules';
import { type StepMetrics, Trainer } from '@mtl/trainer';
import type { TinyModel } from './tiny-models.js';

export interface TinyTrainingOptions<Batch, Chunk extends Stage<Batch>> {
  readonly model: TinyModel<Batch, Chunk>;
  readonly device: 'cpu' | 'cuda';
  readonly numMicroBatches: number;
  readonly dtype?: 'float32' | 'float16' | 'bfloat16';
  readonly steps?: number;
  /** If given, passes are recorded as graphs, and it is called with the messages of a `GraphedStage`. */
  readonly onGraphMessage?: ((text: string) => void) | undefined;
  /** Returns the number of positions of a micro-batch. Default: always the model's. */
  readonly countPositions?: (microBatch: number) => number;
  /** Stages that replace the model's stages. */
  readonly wrap?: (stage: Chunk) => Stage<Batch>;
  /**
   * The schedule of chunks, which are all in this process. Default: the whole model, one micro-batch after
   * the other.
   */
  readonly schedule?: (numMicroBatches: number) => PipelineSchedule;
  /** Number of micro-batches to evaluate after every step. */
  readonly numEvaluated?: number;
  /** Called with the parameters after a failed step. */
  readonly onError?: (parameters: readonly Parameter[]) => void;
  /** Returns the learning rate of an update, by the number of previous updates. */
  readonly learningRate?: (numUpdates: number) => number;
  /**
   * Returns true for steps whose metrics are read at once; other steps are read late. Default: no step is
   * late.
   */
  readonly waitsAfter?: (iteration: number) => boolean;
  /** Called when all work of a step is enqueued. */
  readonly onEnqueued?: (iteration: number) => void;
  /** Called when a step is yielded. */
  readonly onStep?: (step: StepMetrics) => void;
}

export interface TinyTraining {
  readonly losses: readonly number[];
  readonly norms: readonly number[];
  readonly evaluated: readonly number[];
  /** The counts of each step on an emulated device that counts; otherwise empty. */
  readonly counts: readonly EmulationCounts[];
  /** The memory of the device in use after each step. */
  readonly bytesInUse: readonly number[];
}

/** Returns a trainer of a tiny model with dropout. */
export function tinyTrainer<Batch, Chunk extends Stage<Batch>>(options: TinyTrainingOptions<Batch, Chunk>) {
  const { model, device, numMicroBatches, dtype = 'float32', steps = 4 } = options;
  const { sequenceLength, microBatchSize, losses: trained } = model;
  const {
    countPositions = () => sequenceLength,
    wrap = (stage: Chunk) => stage,
    schedule = oneStage,
  } = options;
  const { onGraphMessage: onMessage, learningRate = () => 0.01 } = options;
  const numChunks = schedule(1).placement.length;
  const { stages: pieces, parameters } = model.build({ device, dtype, numChunks });
  const stores = createStores(parameters, { device, dtype, seed: 3 });
  const optimizer = new AdamwOptimizer(stores, {
    beta1: 0.9,
    beta2: 0.95,
    epsilon: 1e-8,
    weightDecay: 0.1,
    clipGrad: 1,
    // as in training runs
    writesFirstGradients: device === 'cuda' && onMessage === undefined,
  });
  const graphed: GraphedStage<Batch>[] = [];
  const wrapStage = (piece: Chunk): Stage<Batch> => {
    if (onMessage === undefined) return wrap(piece);
    graphed.push(new GraphedStage({ stage: wrap(piece), device, onMessage }));
    return graphed.at(-1)!;
  };
  const stages = new Map([...pieces].map(([chunk, piece]) => [chunk, wrapStage(piece)]));
  async function* batches(): AsyncGenerator<Batch> {
    for (let number = 0; ; number++) yield model.makeBatch(number, countPositions(number));
  }
  const lossScaler = new LossScaler(
    dtype === 'float16' ? { kind: 'dynamic', initialScale: 256 } : { kind: 'constant' },
  );
  const trainer = new Trainer<Batch>({
    pipeline: new Pipeline({ stages, schedule, dtype, device }),
    optimizer,
    device,
    sequenceLength,
    flopsPerSample: 1,
    trainIterations: steps,
    losses: trained,
    learningRate: ({ numUpdates }) => learningRate(numUpdates),
    lossScaler,
    microBatches: new NumMicroBatches({
      globalBatchSize: microBatchSize * numMicroBatches,
      microBatchSize,
      numShares: 1,
    }),
    batches: batches(),
  });
  const dispose = (): void => {
    for (const stage of graphed) stage.dispose();
    optimizer.dispose();
  };
  return { trainer, optimizer, lossScaler, parameters, batches, dispose };
}

/** Trains a tiny model with dropout, and counts where the device is an emulated one. */
export async function tinyTraining<Batch, Chunk extends Stage<Batch>>(
  options: TinyTrainingOptions<Batch, Chunk>,
): Promise<TinyTraining> {
  const { device, numEvaluated = 0, waitsAfter, onEnqueued, onStep } = options;
  const { trainer, optimizer, parameters, batches, dispose } = tinyTrainer(options);
  if (onEnqueued !== undefined) {
    const launch = optimizer.launchStep.bind(optimizer);
    let iteration = 0;
    optimizer.launchStep = (step) => {
      launch(step);
      onEnqueued(++iteration);
    };
  }
  const [losses, norms, evaluated]: [number[], number[], number[]] = [[], [], []];
  const [counts, bytesInUse]: [EmulationCounts[], number[]] = [[], []];
  let before = device === 'cuda' && hasEmulationCounts ? emulationCounts() : undefined;
  try {
    for await (const metrics of waitsAfter === undefined ? trainer : trainer.steps({ waitsAfter })) {
      const { loss, gradNorm } = metrics;
      onStep?.(metrics);
      losses.push(loss);
      norms.push(gradNorm);
      bytesInUse.push(memoryStatistics(device).bytesInUse);
      if (before !== undefined) counts.push(difference(emulationCounts(), before));
      if (numEvaluated > 0) {
        const { loss } = await trainer.evaluate(batches(), numEvaluated);
        evaluated.push(loss);
      }
      if (before !== undefined) before = emulationCounts();
    }
  } catch (error) {
    options.onError?.(parameters);
    throw error;
  } finally {
    dispose();
  }
  return { losses, norms, evaluated, counts, bytesInUse };
}

function difference(now: EmulationCounts, before: EmulationCounts): EmulationCounts {
  const names = Object.keys(now) as (keyof EmulationCounts)[];
  return Object.fromEntries(
    names.map((name) => [name, now[name] - before[name]]),
  ) as unknown as EmulationCounts;
}
