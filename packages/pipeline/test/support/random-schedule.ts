import fc from 'fast-check';
import type { PipelineSchedule, ScheduleAction } from '../../src/schedules.js';

/**
 * Makes arbitrary valid schedules: chunks on any ranks, halves of backward together or apart, and an order
 * found by repeatedly running a random action that is ready. Free of deadlock by construction.
 */
export function randomSchedule(numStages: number): fc.Arbitrary<PipelineSchedule> {
  const extra = fc.array(fc.nat(numStages - 1), { maxLength: 4 });
  const everyRank = fc.shuffledSubarray(
    Array.from({ length: numStages }, (_, rank) => rank),
    { minLength: numStages },
  );
  return fc
    .record({
      placement: fc.tuple(everyRank, extra).map(([first, more]) => [...first, ...more]),
      numMicroBatches: fc.integer({ min: 1, max: 5 }),
      splits: fc.array(fc.boolean(), { minLength: 1, maxLength: 20 }),
      choices: fc.array(fc.nat(1000), { minLength: 50, maxLength: 50 }),
    })
    .map(({ placement, numMicroBatches, splits, choices }) => {
      const isSplit = ({ chunk, microBatch }: ScheduleAction): boolean =>
        splits[(chunk * numMicroBatches + microBatch) % splits.length]!;
      const actions: ScheduleAction[][] = Array.from({ length: numStages }, () => []);
      let ready: ScheduleAction[] = Array.from({ length: numMicroBatches }, (_, microBatch) => ({
        kind: 'F',
        chunk: 0,
        microBatch,
      }));
      for (let step = 0; ready.length > 0; step++) {
        const action = ready[choices[step % choices.length]! % ready.length]!;
        actions[placement[action.chunk]!]!.push(action);
        ready = [...ready.filter((other) => other !== action), ...enabledBy(action)];
      }
      return { name: 'random', numMicroBatches, placement, actions };

      function enabledBy({ kind, chunk, microBatch }: ScheduleAction): ScheduleAction[] {
        const backward = (at: number): ScheduleAction => {
          const whole: ScheduleAction = { kind: 'B', chunk: at, microBatch };
          return isSplit(whole) ? { ...whole, kind: 'I' } : whole;
        };
        if (kind === 'W') return [];
        if (kind === 'F') {
          const isLast = chunk === placement.length - 1;
          return [isLast ? backward(chunk) : { kind, chunk: chunk + 1, microBatch }];
        }
        const weights: ScheduleAction[] = kind === 'I' ? [{ kind: 'W', chunk, microBatch }] : [];
        return chunk === 0 ? weights : [...weights, backward(chunk - 1)];
      }
    });
}
