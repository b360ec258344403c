// Measures the bubble of the real pipeline executor, with processes whose stages sleep for a known time, and
// compares it with the simulator's bubble. Exits with status 1 if the difference is too large, or if
// interleaving gains too little. Usage: npm run dev -- bubbles [milliseconds of F, I and W on a chunk; longer
// if ranks would be idle too little] [steps]
import { getPriority, setPriority } from 'node:os';
import { replayStep, simulateSchedule } from '../../../packages/pipeline/src/schedules.js';
import { makeSchedule } from '../../../packages/pipeline/test/ranks/run-affine-chain.js';
import type { TimedCase } from '../../../packages/pipeline/test/ranks/time-passes.js';
import {
  type MeasuredBubble,
  measureBubbles,
} from '../../../packages/pipeline/test/support/measured-bubbles.js';
import { ofEveryChunk } from '../../../packages/pipeline/test/support/of-every-chunk.js';

const numStages = 4;
const sizes = [8, 16];
/** The shortest pass, in milliseconds. */
const passMs = Number(process.argv[2] ?? 50);
const numSteps = Number(process.argv[3] ?? 3);
/**
 * The largest allowed difference between the measured and the simulated bubble, and the smallest gain
 * required from interleaving with 8 micro-batches.
 */
const [mostOff, leastGain] = [0.1, 0.1];
/**
 * True if this user may raise the priority of ranks. With higher priority, ranks run as soon as they wake, as
 * on separate cores.
 */
const isFirst = mayRunFirst();
const missed: string[] = [];
const kinds: readonly (readonly [schedule: string, numChunks?: number])[] = [
  ...([['gpipe'], ['1f1b'], ['zb-h1'], ['zb-h2'], ['zb-v'], ['breadth-first', 1]] as const),
  ...([
    ['breadth-first', 2],
    ['breadth-first', 4],
    ['interleaved', 2],
    ['interleaved', 4],
  ] as const),
];

/** The minimum of a rank's idle time in a step, divided by the rank's number of passes, in milliseconds. */
const leastIdleMs = 14;

/**
 * Increases the duration of passes until ranks are idle enough. In every schedule, a pass takes about 0.25 ms
 * longer because of the executor, messages and late wake-ups. In schedules with a small bubble (zero-bubble,
 * or many chunks), this time would be a large part of the bubble.
 */
function withEnoughIdleTime(timedCase: TimedCase): TimedCase {
  const schedule = makeSchedule(timedCase, timedCase.numMicroBatches);
  const times = ofEveryChunk(schedule, { forward: 1, backwardInput: 1, backwardWeight: 1 });
  const [first] = simulateSchedule({ schedule, times }).ranks;
  const { idle, passes } = first!;
  return { ...timedCase, passMs: Math.max(timedCase.passMs, (leastIdleMs * passes.length) / idle) };
}

const results: MeasuredBubble[] = [];
for (const numMicroBatches of sizes) {
  const cases = kinds.map(([schedule, numChunks]) =>
    withEnoughIdleTime({
      schedule,
      numChunks,
      numStages,
      numMicroBatches,
      numReplicas: 1,
      size: 64,
      passMs,
    }),
  );
  results.push(...(await measureBubbles({ cases, numSteps, isFirst })));
}

const percent = (fraction: number): string => `${(100 * fraction).toFixed(2)} %`;
const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
const countChunks = ({ simulated }: MeasuredBubble): number =>
  simulated.schedule.placement.length / numStages;

const rows = results.map((result) => {
  const { timedCase, simulated, measured } = result;
  const bubble = median(measured.map(({ bubbleFraction }) => bubbleFraction));
  const replayed = median(measured.map((step) => replayStep(step).bubbleFraction));
  const off = bubble / simulated.bubbleFraction - 1;
  if (!(Math.abs(off) <= mostOff)) {
    const what = `${simulated.schedule.name}, v = ${countChunks(result)}, m = ${timedCase.numMicroBatches}`;
    missed.push(`${what}: the bubble is off by ${percent(off)}, goal ${percent(mostOff)}`);
  }
  return [
    simulated.schedule.name,
    `${countChunks(result)}`,
    `${timedCase.numMicroBatches}`,
    timedCase.passMs.toFixed(0),
    percent(simulated.bubbleFraction),
    percent(replayed),
    percent(bubble),
    percent(off),
    simulated.makespan.toFixed(1),
    median(measured.map(({ makespan }) => makespan)).toFixed(1),
  ];
});
const head = [
  'schedule',
  'v',
  'm',
  'pass ms',
  'simulated',
  'replayed',
  'measured',
  'off by',
  'simulated ms',
  'measured ms',
];
const widths = head.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column]!.length)));
console.log(
  `bubble (idle over busy) of ${numStages} processes, medians of ${numSteps} steps${isFirst ? '' : ', without the highest priority (this user may not raise it)'}`,
);
for (const row of [head, ...rows]) {
  console.log(row.map((cell, column) => cell.padStart(widths[column]!)).join('  '));
}
for (const numMicroBatches of sizes) {
  // the unit of time is a pass of a complete stage, which has the same layers regardless of the number of
  // chunks
  const measureTime = (schedule: string, chunks: number): number => {
    const found = results.find(
      (result) =>
        result.simulated.schedule.name === schedule &&
        result.timedCase.numMicroBatches === numMicroBatches &&
        countChunks(result) === chunks,
    )!;
    return median(found.measured.map(({ makespan }) => makespan)) / found.timedCase.passMs / chunks;
  };
  for (const chunks of [2, 4]) {
    const gain = measureTime('1f1b', 1) / measureTime('interleaved', chunks) - 1;
    const said = `interleaving over 1f1b, m = ${numMicroBatches}, v = ${chunks}: ${percent(gain)} more steps a second`;
    console.log(said);
    if (numMicroBatches === 8 && !(gain >= leastGain)) missed.push(`${said}, goal ${percent(leastGain)}`);
  }
}
function mayRunFirst(): boolean {
  const before = getPriority();
  try {
    setPriority(before - 1);
    setPriority(before);
    return true;
  } catch {
    return false;
  }
}

for (const goal of missed) console.error(`missed: ${goal}`);
if (missed.length > 0) process.exitCode = 1;
