import type { PipelineSchedule } from '@mtl/pipeline/schedules';

type Action = PipelineSchedule['actions'][number][number];

/**
 * Returns a schedule of two chunks on one rank, each with two micro-batches in flight, so that pipelines can
 * be tested in one process. If the halves of backward are apart, the weight half comes after the next forward
 * (with three micro-batches). With `in turn`, every second micro-batch has them together.
 */
export function onOneRank(halves: 'together' | 'apart' | 'in turn') {
  return (numMicroBatches: number): PipelineSchedule => {
    const actions: Action[] = [];
    const areApart = (microBatch: number): boolean =>
      halves === 'apart' || (halves === 'in turn' && microBatch % 2 === 1);
    const both = (kind: Action['kind'], microBatch: number, chunks: readonly number[]): void => {
      if (microBatch < 0 || microBatch >= numMicroBatches) return;
      for (const chunk of chunks) actions.push({ kind, chunk, microBatch });
    };
    both('F', 0, [0, 1]);
    for (let microBatch = 0; microBatch <= numMicroBatches; microBatch++) {
      both('F', microBatch + 1, [0, 1]);
      if (areApart(microBatch - 1)) both('W', microBatch - 1, [1, 0]);
      both(areApart(microBatch) ? 'I' : 'B', microBatch, [1, 0]);
    }
    return { name: `on one rank, halves ${halves}`, numMicroBatches, placement: [0, 0], actions: [actions] };
  };
}
