import type { World } from '@mtl/comm';
import { configure, type RunOptions } from '@mtl/configuration';
import type { GptStage } from '@mtl/models';
import type { ParameterStore } from '@mtl/optimizer';
import { faultyWorld } from '../../parity/faulty-world.mjs';
import { openTraining } from '../../src/index.js';

export interface OverflowCase {
  readonly options: RunOptions;
  /** The steps in which one gradient overflows. */
  readonly iterations: readonly number[];
  /** The stage with the overflow, on its first tensor-parallel rank. */
  readonly stage: number;
  /** The data-parallel rank with the overflow. Default: 0. */
  readonly dataParallelRank?: number;
  /** A fault of the communication (`faultyWorld`). Default: none. */
  readonly fault?: string;
}

/** A step as a rank saw it. */
export interface ObservedStep {
  readonly iteration: number;
  readonly skipped: boolean;
  readonly lossScale: number;
  readonly loss: number;
  readonly gradientNorm: number;
  /** True if the step changed this rank's parameters. */
  readonly changed: boolean;
}

export default async (world: World, all: readonly OverflowCase[]): Promise<ObservedStep[][]> => {
  const results: ObservedStep[][] = [];
  for (const each of all) results.push(await observe(world, each));
  return results;
};

async function observe(
  world: World,
  { options, iterations, stage: where, dataParallelRank = 0, fault }: OverflowCase,
): Promise<ObservedStep[]> {
  const configuration = configure(options, { worldSize: world.size });
  const training = await openTraining({
    configuration,
    corpusDirectory: 'never-used',
    stream: { write: () => true, isTTY: false },
    world: world.size === 1 ? undefined : fault === undefined ? world : faultyWorld(world, fault),
    local: { rank: world.rank, size: world.size },
  });
  try {
    const { part, trainer, processes, optimizer } = training;
    const { tp, dp, pp } = processes.coordinates;
    // the recipe's stages are a GPT's
    const [stage] = part.stages.values() as Iterable<GptStage>;
    const backwardInput = stage!.backwardInput.bind(stage);
    stage!.backwardInput = (call) => {
      const happens = iterations.includes(trainer.progress.iteration + 1) && call.microBatch === 0;
      // the gradient is of a layer's own weight, so that no other stage holds it and no boundary tensor
      // carries it
      const gradient = stage!.blocks[0]!.parameters[0]!.mainGradient;
      if (happens && pp === where && tp === 0 && dp === dataParallelRank) {
        gradient.write(new Float32Array(gradient.size).fill(Number.POSITIVE_INFINITY));
      }
      return backwardInput(call);
    };
    // every value is in a range that some rank owns
    const values = (): string => optimizer.stores.map(readOwned).join();
    const steps: ObservedStep[] = [];
    let before = values();
    for await (const { iteration, skipped, lossScale, loss, gradNorm } of trainer) {
      const after = values();
      const changed = after !== before;
      before = after;
      steps.push({ iteration, skipped, lossScale, loss, gradientNorm: gradNorm, changed });
    }
    return steps;
  } finally {
    await training.close();
  }
}

/** Returns the model's values that this rank updates. */
function readOwned(store: ParameterStore): string {
  return store.owned
    .map((range) => {
      using values = store.model(range);
      return values.toArray().join();
    })
    .join();
}
