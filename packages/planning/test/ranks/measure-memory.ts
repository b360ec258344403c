import type { ProcessGroup, World } from '@mtl/comm';
import { configure, type RunOptions } from '@mtl/configuration';
import { countedFlops, memoryStatistics, resetCountedFlops, resetPeakMemory, trimMemory } from '@mtl/kernels';
import { openTraining, type Pretraining } from '@mtl/runs';
import { type DryRunRank, dryRunRank, metaRun } from '../../src/dry-run/dry-run-rank.js';

/** The measured memory of this rank, and the counts of a dry run. */
export interface MeasuredMemory {
  /** The allocator's peak over a training run from building the model on, in bytes. */
  readonly peak: number;
  /** The FLOPs of a step, as operations count them. */
  readonly flops: number;
  /** Bytes that the rank sent in the step, counted by engines, for each group by its scopes: `dp+ep`. */
  readonly sentBytes: Readonly<Record<string, number>>;
  /** The training run on device meta. */
  readonly dry: DryRunRank;
}

/** Trains one run after the other, as gpt-train or bert-train does, and measures each. */
export default (world: World, all: readonly RunOptions[]): Promise<MeasuredMemory[]> =>
  all.reduce<Promise<MeasuredMemory[]>>(
    async (before, options) => [...(await before), await measure(world, options)],
    Promise.resolve([]),
  );

async function measure(world: World, options: RunOptions): Promise<MeasuredMemory> {
  const configuration = configure(options, { worldSize: world.size });
  const { trainIterations: numSteps } = configuration.training;
  // the cache determines which blocks are reused
  trimMemory('cpu');
  const before = memoryStatistics('cpu').bytesInUse;
  resetPeakMemory('cpu');
  const training = await openTraining({
    configuration,
    corpusDirectory: 'never-used',
    stream: { write: () => true, isTTY: false },
    world: world.size === 1 ? undefined : world,
    local: { rank: world.rank, size: world.size },
  });
  const sentBefore = countSentBytes(training);
  resetCountedFlops();
  await training.run();
  // a gather of the last update counts when it finishes
  for (const store of training.optimizer.stores) store.waitForValues();
  const flops = countedFlops() / numSteps;
  const peak = memoryStatistics('cpu').peakBytes - before;
  const sentBytes = Object.fromEntries(
    countSentBytes(training).map(([scopes, bytes], index) => [
      scopes,
      (bytes - sentBefore[index]![1]) / numSteps,
    ]),
  );
  await training.close();
  const dry = await dryRunRank(metaRun(configuration), {
    rank: world.rank,
    model: training.model,
    numSteps,
  });
  return { peak, flops, sentBytes, dry };
}

/** Returns the sent bytes by the scopes of each group, which a dry run tells apart: `dp+ep`. */
function countSentBytes({ processes }: Pretraining): readonly (readonly [string, number])[] {
  const { tp, cp, sequences, ep, etp, experts, dense: dp, expert: edp, pp } = processes.groups;
  const { dpInstances, edpInstances } = processes.groups;
  const scopesByGroup = new Map<ProcessGroup, string[]>();
  const scopes = { tp, cp, sequences, ep, etp, experts, dp, edp, dpInstances, edpInstances, pp };
  for (const [scope, group] of Object.entries(scopes)) {
    if (group === undefined) continue;
    scopesByGroup.set(group, [...(scopesByGroup.get(group) ?? []), scope]);
  }
  return [...scopesByGroup].map(([group, scopes]) => [
    scopes.join('+'),
    Object.values(group.statistics()).reduce((sum, { sentBytes }) => sum + sentBytes, 0),
  ]);
}
