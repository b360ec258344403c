import { LocalWorld, type OperationCount, type World } from '@mtl/comm';
import { countElements, Tensor } from '@mtl/kernels';

export interface GroupsResult {
  readonly row: number[];
  readonly column: number[];
  readonly sums: number[];
  readonly relayed: number[];
  readonly disposed: number[];
  /** The code and the message of the error of an all-reduce on `meta` and on `meta-cuda`. */
  readonly withoutValues: ReadonlyArray<readonly [code: string, message: string]>;
  readonly allReduce: OperationCount;
  /**
   * The number of operations with their own thread that had started before the program waited for the first
   * one.
   */
  readonly startedBeforeWait: number;
  readonly isDone: readonly boolean[];
}

const ones = (shape: readonly number[], value = 1): Tensor =>
  Tensor.from(
    Array.from({ length: countElements(shape) }, () => value),
    { shape, dtype: 'float32' },
  );

/** Runs four ranks as 2 x 2: overlapping groups, operations in flight, messages posted early. */
export default function groups(world: World): GroupsResult {
  const { rank, group } = world;
  const rowRanks = rank < 2 ? [0, 1] : [2, 3];
  const columnRanks = rank % 2 === 0 ? [0, 2] : [1, 3];
  const row = world.createGroup({ name: 'row', ranks: rowRanks });
  const column = world.createGroup({ name: 'column', ranks: columnRanks });

  const inRow = ones([1], rank);
  const inColumn = ones([1], 10 * rank);
  // started in another order than they are waited for, in groups that share this rank
  const rowWork = row.allReduce(inRow);
  const columnWork = column.allReduce(inColumn);
  columnWork.wait();
  rowWork.wait();

  const large = Array.from({ length: 6 }, (_, index) => ones([40_000], index + 1));
  const works = large.map((tensor) => group.allReduce(tensor));
  works.at(-1)!.wait();
  for (const work of works) work.wait();

  // every rank receives from the left before any rank sends, several messages deep
  const [left, right] = [(rank + 3) % 4, (rank + 1) % 4];
  const arrived = Array.from({ length: 3 }, () => Tensor.empty({ shape: [1], dtype: 'float32' }));
  const receives = arrived.map((tensor) => group.receive(tensor, { from: left }));
  group.barrier().wait();
  const sends = arrived.map((_, index) => group.send(ones([1], 100 * rank + index), { to: right }));
  for (const work of [...receives, ...sends]) work.wait();

  // the memory of an operation in progress outlives its tensor
  const kept = ones([40_000], rank);
  const view = kept.view({ shape: [40_000] });
  const work = group.allReduce(kept);
  kept.dispose();
  work.wait();

  const overlap = traceOfOverlap(world);
  const isDone = [works[0]!.isDone, work.isDone];
  const result = {
    row: inRow.toArray(),
    column: inColumn.toArray(),
    sums: large.map((tensor) => tensor.toArray().at(-1)!),
    relayed: arrived.map((tensor) => tensor.item()),
    disposed: [view.toArray()[0]!],
    withoutValues: refusalsWithoutValues(world),
    allReduce: group.statistics().allReduce,
    startedBeforeWait: overlap,
    isDone,
  };
  row.close();
  row.close();
  return result;
}

/** Returns the errors of the group for tensors without memory. */
function refusalsWithoutValues({ group }: World): Array<readonly [string, string]> {
  return (['meta', 'meta-cuda'] as const).map((device) => {
    using tensor = Tensor.empty({ shape: [4], dtype: 'float32', device });
    try {
      group.allReduce(tensor).wait();
    } catch (error) {
      const { code, message } = error as { code: string; message: string };
      return [code, message];
    }
    return ['', 'accepted'];
  });
}

/** Measures whether an all-reduce makes progress while this thread does other work. */
function traceOfOverlap(world: World): number {
  if (!(world instanceof LocalWorld)) return 0;
  world.takeTrace();
  const tensor = ones([40_000]);
  const work = world.group.allReduce(tensor);
  while (!work.isDone) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
  work.wait();
  world.group.barrier().wait();
  return world.takeTrace().filter(({ doneNs, waitedFromNs, postedNs, startedNs }) => {
    return postedNs <= startedNs && startedNs <= doneNs && doneNs <= waitedFromNs;
  }).length;
}
