import { chunkRounds } from '../schedules/chunk-rounds.js';
import type { Simulation } from '../simulator/simulate-schedule.js';

/**
 * What the words of `formatTimeline` mean, as lines of at most 100 columns: the labels that the timeline has,
 * and the columns of its table.
 *
 * @param unit of all times: `milliseconds`
 */
export function timelineLegend({ schedule, ranks, optimizerTime }: Simulation, unit: string): string {
  const kinds = new Set(schedule.actions.flat().map(({ kind }) => kind));
  const labels = [
    'F forward',
    ...(kinds.has('B') ? ['B backward'] : []),
    ...(kinds.has('I') ? ['I input half of backward'] : []),
    ...(kinds.has('W') ? ['W weight half of backward'] : []),
    ...(optimizerTime > 0 ? ['opt optimizer'] : []),
    '. idle',
  ];
  const isChunked = chunkRounds(schedule).some((round) => round > 0);
  const isSplit = ranks.some(({ peak }) => peak.numUntilWeight > 0);
  const isSized = ranks.some(({ peak }) => peak.size !== peak.numAlive);
  return [
    labels.join(', '),
    `0, 1, 2 ... the micro-batch${isChunked ? '; a, b ... the chunk of the rank' : ''}`,
    `times (step, busy, idle) in ${unit}; bubble: idle time of all ranks by their work`,
    `peak: most micro-batches${isChunked ? ' of chunks' : ''} whose activations a rank keeps at once`,
    ...(isSplit ? ['until I, until W: those kept for a whole backward, for its weight half alone'] : []),
    ...(isSized ? ['size: peak in activations, where those kept for the weight half count their share'] : []),
    '',
  ].join('\n');
}
