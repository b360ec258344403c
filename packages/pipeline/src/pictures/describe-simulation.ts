import type { SimulatedRank, Simulation } from '../simulator/simulate-schedule.js';

/** The texts in every picture of a schedule. */
interface SimulationDescription {
  /** The title, for example `interleaved: 4 stages, 8 micro-batches, 2 chunks on each`. */
  readonly title: string;
  /** The bubble, for example `step 57, bubble 18.8 % of the work`. */
  readonly bubble: string;
  /** The memory, for example `peak activations: 11 on rank 0 (5.5 micro-batches of a stage)`. */
  readonly memory: string;
  /** The text of `memory`, wrapped at 100 columns. */
  readonly memoryLines: readonly string[];
}

/** Describes the schedule, its bubble and its memory, in one sentence each. */
export function describeSimulation(simulation: Simulation): SimulationDescription {
  const { schedule, stepTime, bubbleFraction, hasBarrier, ranks } = simulation;
  const { name, numMicroBatches, placement, actions } = schedule;
  const perRank = placement.length / actions.length;
  const chunks = Number.isInteger(perRank) ? `${perRank} on each` : 'shared unevenly';
  const held = perRank === 1 ? '' : `, ${plural(placement.length, 'chunk')} (${chunks})`;
  const most = ranks.reduce((one, other) => (other.peak.numAlive > one.peak.numAlive ? other : one));
  const { numAlive, numUntilWeight } = most.peak;
  const split = numUntilWeight === 0 ? [] : [`up to ${numUntilWeight} wait only for their weight half`];
  const whole = perRank === 1 ? '' : ` chunks = ${formatNumber(numAlive / perRank)} micro-batches of a stage`;
  const peak = `peak activations ${numAlive}${whole}, on rank ${ranks.indexOf(most)}`;
  return {
    title: `${name}: ${plural(actions.length, 'stage')}, ${plural(numMicroBatches, 'micro-batch', 'es')}${held}`,
    bubble:
      `step ${formatNumber(stepTime)}, bubble ${formatPercent(bubbleFraction)} of the work` +
      (hasBarrier ? '' : ', no barrier before the optimizer'),
    memory: [peak, ...split].join(', '),
    memoryLines: [peak, ...split.map((text) => `  ${text}`)],
  };
}

/** Returns a rank's idle time as a fraction of the step. */
export function idleShare({ idle, busy }: SimulatedRank): number {
  return idle + busy === 0 ? 0 : idle / (idle + busy);
}

/** Formats `value` with at most four decimals. */
export function formatNumber(value: number): string {
  return String(Number(value.toFixed(4)));
}

/** Formats a fraction as `18.8 %`. */
export function formatPercent(fraction: number): string {
  return `${Number((100 * fraction).toFixed(1))} %`;
}

function plural(count: number, word: string, ending = 's'): string {
  return `${count} ${word}${count === 1 ? '' : ending}`;
}
