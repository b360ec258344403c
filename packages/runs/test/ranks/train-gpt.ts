import { isMainThread } from 'node:worker_threads';
import type { ProcessGroup, World } from '@mtl/comm';
import { flagsOfOptions, type RunOptions, validateConfiguration } from '@mtl/configuration';
import { withLoadedFlags } from '@mtl/configuration/internal';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import type { ModelOptimizer } from '@mtl/optimizer';
import { openTraining, type Pretraining } from '../../src/index.js';
import { openConversations } from '../../src/parts/conversations/open-conversations.js';
import { findRecipe } from '../../src/parts/models/find-recipe.js';
import { loadModelBlocks } from '../../src/parts/models/load-model-blocks.js';
import { readLoadedFlags } from '../../src/saved/read-loaded-flags.js';

export interface TrainGptArgument {
  readonly options: RunOptions;
  /** The options of single ranks, which replace the common options. */
  readonly optionsOfRank?: Readonly<Record<number, RunOptions>>;
  readonly isRestart?: boolean;
  /** The id of the job. Default: the same for all training runs. */
  readonly job?: string | undefined;
  /** Injected fault: the reduced gradients of an iteration are multiplied by this factor. */
  readonly spike?: { readonly iteration: number; readonly factor: number } | undefined;
  /** Injected fault: one gradient of a rank is wrong, the first time that an iteration is computed. */
  readonly wrongOnce?: { readonly iteration: number; readonly rank: number } | undefined;
  /**
   * Injected fault: a rank computes this number of milliseconds longer in each step. Ranks are compared at
   * once.
   */
  readonly slowRank?: { readonly rank: number; readonly ms: number } | undefined;
}

export interface TrainGptResult {
  readonly reason: string;
  readonly checkpointPath: string | undefined;
  /** The output of this rank for users. */
  readonly output: string;
  readonly sample: string | undefined;
  /** The counts of the tensor-parallel group by the end of the training run. */
  readonly tensorParallel: ReturnType<ProcessGroup['statistics']> | undefined;
  /** The counts of the pipeline's group by the end of the training run. */
  readonly pipeline: ReturnType<ProcessGroup['statistics']> | undefined;
}

export default (world: World, all: readonly TrainGptArgument[]): Promise<TrainGptResult[]> =>
  all.reduce<Promise<TrainGptResult[]>>(
    async (before, argument) => [...(await before), await trainGpt(world, argument)],
    Promise.resolve([]),
  );

// Ranks that are threads read batches themselves: a thread for each training takes longer to start than a
// small model to train. Batches are the same (batch-loader.test.ts of @mtl/data); ranks that are processes,
// `train` and the commands keep the thread.
if (!isMainThread) {
  for (const kind of ['gpt', 'bert'] as const) {
    const recipe = findRecipe({ kind });
    const { batches } = recipe;
    Object.assign(recipe, {
      batches: (options: Parameters<typeof batches>[0]) => batches({ thread: 'main', ...options }),
    });
  }
}

/** Trains as gpt-train and bert-train do, as one rank. */
async function trainGpt(
  world: World,
  { options, optionsOfRank, isRestart = false, job = 'the job of a test', ...faults }: TrainGptArgument,
): Promise<TrainGptResult> {
  const { spike, wrongOnce, slowRank } = faults;
  const flags = flagsOfOptions(mergeOptions(options, optionsOfRank?.[world.rank] ?? {}));
  await loadModelBlocks(flags);
  const loaded = withLoadedFlags(flags, await readLoadedFlags(flags));
  const conversations = await openConversations(loaded);
  const configuration = validateConfiguration(loaded, {
    worldSize: world.size,
    conversations: conversations?.samples,
  });
  let output = '';
  const write = (text: string): boolean => {
    output += text;
    return true;
  };
  const training = await openTraining({
    configuration,
    conversations,
    job: { id: job, restartCount: isRestart ? 1 : 0 },
    corpusDirectory: 'never-used',
    stream: { write, isTTY: false },
    world: world.size === 1 ? undefined : world,
    local: { rank: world.rank, size: world.size },
    ...(spike === undefined
      ? {}
      : { extensions: [{ name: 'boost', onGradients: (...at) => boost(spike, ...at) }] }),
    ...(slowRank === undefined ? {} : { rankWatchTimes: { leastIntervalMs: 0, leastReportMs: 0 } }),
  });
  if (wrongOnce?.rank === world.rank) makeWrongOnce(training, wrongOnce.iteration);
  if (slowRank?.rank === world.rank) makeSlow(training, slowRank.ms);
  try {
    const { reason, checkpointPath } = await training.run();
    const { tp, pp } = training.processes.groups;
    const [tensorParallel, pipeline] = [tp?.statistics(), pp?.statistics()];
    const sample = reason === 'done' ? await training.show() : undefined;
    return { reason, checkpointPath, output, sample, tensorParallel, pipeline };
  } finally {
    await training.close();
  }
}

/** Multiplies the reduced gradients of this rank. */
function boost(
  { iteration, factor }: NonNullable<TrainGptArgument['spike']>,
  { stores }: ModelOptimizer,
  current: number,
): void {
  if (current !== iteration) return;
  for (const store of stores) {
    for (const range of store.owned) {
      using gradients = store.gradient(range);
      gradients.write(gradients.read<'float32'>().map((value) => value * factor));
    }
  }
}

/** Makes one gradient huge before it is reduced, like a bit flip in its exponent. */
function makeWrongOnce({ optimizer, trainer }: Pretraining, iteration: number): void {
  const { reduceGradients } = optimizer;
  optimizer.reduceGradients = () => {
    if (trainer.progress.iteration + 1 === iteration) {
      using one = optimizer.stores[0]!.gradient({ start: 40, end: 41 });
      one.write(Float32Array.of(1e9));
      optimizer.reduceGradients = reduceGradients;
    }
    reduceGradients.call(optimizer);
  };
}

/**
 * Delays this rank before it reduces gradients, like a host that computes slowly. It sleeps, so that the
 * other ranks keep their cores.
 */
function makeSlow({ optimizer }: Pretraining, ms: number): void {
  const { reduceGradients } = optimizer;
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  optimizer.reduceGradients = () => {
    Atomics.wait(nothing, 0, 0, ms);
    reduceGradients.call(optimizer);
  };
}
