import type { World } from '@mtl/comm';
import { configure, type RunOptions } from '@mtl/configuration';
import type { GptStage } from '@mtl/models';
import { openTraining } from '../../src/index.js';

export interface OverflowCase {
  readonly options: RunOptions;
  /** The steps in which one gradient overflows. */
  readonly iterations: readonly number[];
  /** The stage with the overflow, on its first tensor- and data-parallel rank. */
  readonly stage: number;
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
  { options, iterations, stage: where }: OverflowCase,
): Promise<ObservedStep[]> {
  const configuration = configure(options, { worldSize: world.size });
  const training = await openTraining({
    configuration,
    corpusDirectory: 'never-used',
    stream: { write: () => true, isTTY: false },
    world: world.size === 1 ? undefined : world,
    local: { rank: world.rank, size: world.size },
  });
  try {
    const { part, trainer, processes } = training;
    const { tp, dp, pp } = processes.coordinates;
    // the recipe's stages are a GPT's
    const [stage] = part.stages.values() as Iterable<GptStage>;
    const backwardInput = stage!.backwardInput.bind(stage);
    stage!.backwardInput = (call) => {
      const happens = iterations.includes(trainer.progress.iteration + 1) && call.microBatch === 0;
      // the gradient is of a layer's own weight, so that no other stage holds it and no boundary tensor
      // carries it
      const gradient = stage!.blocks[0]!.parameters[0]!.mainGradient;
      if (happens && pp === where && tp === 0 && dp === 0) {
        gradient.write(new Float32Array(gradient.size).fill(Number.POSITIVE_INFINITY));
      }
      return backwardInput(call);
    };
    const values = (): string => part.parameters.map(({ data }) => data.toArray().join()).join();
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
