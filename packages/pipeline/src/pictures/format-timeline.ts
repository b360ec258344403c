import { chunkRounds } from '../schedules/pipeline-schedule.js';
import type { SimulatedRank, Simulation } from '../simulator/simulate-schedule.js';
import { actionLabels } from './action-labels.js';
import { describeSimulation, formatNumber, formatPercent, idleShare } from './describe-simulation.js';

/**
 * Draws a simulated step as text: one line per rank, with time from left to right on a common scale. `F2` and
 * `B2--` are the forward and backward passes of micro-batch 2, and `I2` and `W2` are the halves of its
 * backward pass. A letter after the number identifies the chunk on the rank. Dots are idle time.
 *
 * @param options.width the column at which lines are wrapped. Default: lines are not wrapped
 * @param options.scale the number of columns per unit of time. With few columns, labels are shortened.
 * Default:
 *   enough for every label
 */
export function formatTimeline(
  simulation: Simulation,
  options: { readonly width?: number | undefined; readonly scale?: number | undefined } = {},
): string {
  const { title, bubble, memoryLines } = describeSimulation(simulation);
  const lines = timelines(simulation, options.scale);
  const prefixes = lines.map((_, rank) => `rank ${rank}`.padEnd(`rank ${lines.length - 1}`.length + 2));
  const numColumns = Math.max(...lines.map((line) => line.length));
  const room = Math.max(20, (options.width ?? Number.POSITIVE_INFINITY) - prefixes[0]!.length);
  const blocks: string[] = [];
  for (let first = 0; first < numColumns; first += room) {
    blocks.push(
      lines.map((line, rank) => `${prefixes[rank]}${line.slice(first, first + room)}`.trimEnd()).join('\n'),
    );
  }
  return `${title}\n\n${blocks.join('\n\n')}\n\n${rankTable(simulation.ranks)}\n${bubble}\n${memoryLines.join('\n')}\n`;
}

/** Draws a line for each rank, all on the same scale. */
function timelines(
  { schedule, ranks, stepTime, optimizerTime }: Simulation,
  givenScale: number | undefined,
): string[] {
  const label = actionLabels(schedule);
  const boxes = ranks.map(({ passes, optimizerStart }) => [
    ...passes.map(({ action, start, end }) => ({ text: label(action), start, end })),
    { text: 'opt', start: optimizerStart, end: optimizerStart + optimizerTime },
  ]);
  // a label must fit into its box, with a blank after it; a pass that takes no time has no box
  const shown = boxes.flat().filter(({ start, end }) => end > start);
  const scale =
    givenScale ?? Math.max(0, ...shown.map(({ text, start, end }) => (text.length + 1) / (end - start)));
  return boxes.map((row, rank) => {
    const { stepStart } = ranks[rank]!;
    // before the start and after the end of its own step, a rank is not idle: without a barrier, this time
    // belongs to the previous and the next step
    let line = ' '.repeat(Math.round(stepStart * scale));
    for (const box of row) {
      const [from, to] = [Math.round(box.start * scale), Math.round(box.end * scale)];
      if (to <= from) continue;
      // dashes show the length of a box, and the blank at its end separates it from the next box
      line = `${line.padEnd(from, '.')}${box.text.padEnd(to - from - 1, '-').slice(0, to - from - 1)} `;
    }
    return line.padEnd(Math.round((stepStart + stepTime) * scale), '.');
  });
}

function rankTable(ranks: readonly SimulatedRank[]): string {
  const isSplit = ranks.some(({ peak }) => peak.numUntilWeight > 0);
  const isSized = ranks.some(({ peak }) => peak.size !== peak.numAlive);
  const head = ['rank', 'busy', 'idle', 'idle %', 'peak'];
  if (isSplit) head.push('until I', 'until W');
  if (isSized) head.push('size');
  const rows = ranks.map((rank, index) => {
    const { peak } = rank;
    const row = [
      String(index),
      formatNumber(rank.busy),
      formatNumber(rank.idle),
      formatPercent(idleShare(rank)),
      `${peak.numAlive}`,
    ];
    if (isSplit) row.push(`${peak.numUntilInput}`, `${peak.numUntilWeight}`);
    if (isSized) row.push(formatNumber(peak.size));
    return row;
  });
  const widths = head.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column]!.length)));
  const format = (row: readonly string[]) =>
    row.map((cell, column) => cell.padStart(widths[column]!)).join('  ');
  return [head, ...rows].map((row) => `${format(row)}\n`).join('');
}

/**
 * Explains the symbols of `formatTimeline`, in lines of at most 100 columns: the labels that occur in the
 * timeline, and the columns of its table.
 *
 * @param unit the unit of all times, such as `milliseconds`
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
