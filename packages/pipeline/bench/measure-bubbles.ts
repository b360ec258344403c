// The bubble of the real executor, over processes whose stages sleep for a known time, beside the simulator's.
// Usage: npm run bench -- [milliseconds of F, I and W on a chunk] [steps] [real-time]
import { replayStep } from '../src/schedules/index.js';
import { type MeasuredBubble, measureBubbles } from '../test/support/measured-bubbles.js';

const numStages = 4;
const sizes = [8, 16];
const passMs = Number(process.argv[2] ?? 20);
const numSteps = Number(process.argv[3] ?? 3);
const realTime = process.argv[4] === 'real-time';
const kinds: readonly (readonly [schedule: string, numChunks?: number])[] = [
  ...([['gpipe'], ['1f1b'], ['zb-h1'], ['zb-h2'], ['zb-v'], ['breadth-first', 1]] as const),
  ...([
    ['breadth-first', 2],
    ['breadth-first', 4],
    ['interleaved', 2],
    ['interleaved', 4],
  ] as const),
];

const results: MeasuredBubble[] = [];
for (const numMicroBatches of sizes) {
  const cases = kinds.map(([schedule, numChunks]) => ({
    ...{ schedule, numChunks, numStages, numMicroBatches, numReplicas: 1, size: 64, passMs },
  }));
  results.push(...(await measureBubbles({ cases, numSteps, realTime })));
}

const percent = (fraction: number): string => `${(100 * fraction).toFixed(2)} %`;
const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
const chunksOf = ({ simulated }: MeasuredBubble): number => simulated.schedule.placement.length / numStages;

const rows = results.map((result) => {
  const { timedCase, simulated, measured } = result;
  const bubble = median(measured.map(({ bubbleFraction }) => bubbleFraction));
  const replayed = median(measured.map((step) => replayStep(step).bubbleFraction));
  return [
    simulated.schedule.name,
    `${chunksOf(result)}`,
    `${timedCase.numMicroBatches}`,
    percent(simulated.bubbleFraction),
    percent(replayed),
    percent(bubble),
    percent(bubble / simulated.bubbleFraction - 1),
    simulated.makespan.toFixed(1),
    median(measured.map(({ makespan }) => makespan)).toFixed(1),
  ];
});
const head = [
  'schedule',
  'v',
  'm',
  'simulated',
  'replayed',
  'measured',
  'off by',
  'simulated ms',
  'measured ms',
];
const widths = head.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column]!.length)));
console.log(
  `bubble (idle over busy) of ${numStages} processes, ${passMs} ms a pass, medians of ${numSteps} steps`,
);
for (const row of [head, ...rows]) {
  console.log(row.map((cell, column) => cell.padStart(widths[column]!)).join('  '));
}
for (const numMicroBatches of sizes) {
  // in passes of a whole stage, which holds the same layers whatever their number of chunks
  const timeOf = (schedule: string, chunks: number): number => {
    const found = results.find(
      (result) =>
        result.simulated.schedule.name === schedule &&
        result.timedCase.numMicroBatches === numMicroBatches &&
        chunksOf(result) === chunks,
    )!;
    return median(found.measured.map(({ makespan }) => makespan)) / chunks;
  };
  for (const chunks of [2, 4]) {
    const gain = percent(timeOf('1f1b', 1) / timeOf('interleaved', chunks) - 1);
    console.log(`interleaving over 1f1b, m = ${numMicroBatches}, v = ${chunks}: ${gain} more steps a second`);
  }
}
