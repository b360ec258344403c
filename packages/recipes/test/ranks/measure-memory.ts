import type { World } from '@mtl/comm';
import { type ModelKind, parseFlags, validateConfiguration } from '@mtl/configuration';
import { memoryStatistics, resetPeakMemory } from '@mtl/kernels';
import { type MemoryPrediction, memoryShapeOf, predictStages, Training } from '../../src/index.js';

/** Bytes of this rank. */
export interface MeasuredMemory {
  /** The allocator's peak over a training from building the model on. */
  readonly peak: number;
  readonly predicted: MemoryPrediction;
}

export interface MeasureMemoryArgument {
  readonly model: ModelKind;
  readonly flags: readonly string[];
}

/** Trains one after the other, as gpt-train or bert-train does, and measures each. */
export default (world: World, all: readonly MeasureMemoryArgument[]): Promise<MeasuredMemory[]> =>
  all.reduce<Promise<MeasuredMemory[]>>(
    async (before, argument) => [...(await before), await measure(world, argument)],
    Promise.resolve([]),
  );

async function measure(world: World, { model, flags }: MeasureMemoryArgument): Promise<MeasuredMemory> {
  const configuration = validateConfiguration(parseFlags(flags, { model }), { worldSize: world.size });
  const before = memoryStatistics('cpu').bytesInUse;
  resetPeakMemory('cpu');
  const training = await Training.build({
    configuration,
    corpusDirectory: 'never-used',
    stream: { write: () => true, isTTY: false },
    world: world.size === 1 ? undefined : world,
    local: { rank: world.rank, size: world.size },
  });
  await training.run();
  const peak = memoryStatistics('cpu').peakBytes - before;
  const stages = predictStages(memoryShapeOf(configuration, training.tokenizer.vocabularySize));
  const predicted = stages[training.processes.coordinates.pp]!;
  await training.close();
  return { peak, predicted };
}
