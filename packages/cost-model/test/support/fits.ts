import { listedProfile, loadProfile, predictStepTime } from '../../src/index.js';
import type { ListedProfile } from '../../src/profiles/profile.js';
import { type MeasuredRow, stepOfRow } from './measured-row.js';
import { paperRows } from './paper-rows.js';

/** Fitted constants of a profile, and the rows for the fit. */
interface Fit {
  /** Path of the profile relative to profiles/, without .json. */
  readonly file: string;
  readonly rows: readonly MeasuredRow[];
  readonly description: string;
  /** The keys, start value and limit of each constant; the fit leaves the start value only for a gain. */
  readonly start: readonly (readonly [keys: readonly string[], value: number, most?: number])[];
  /** Weight of the squared relative distance from the start, against squared relative errors of rows. */
  readonly inertia: number;
  /** True to sum absolute instead of squared errors, if a row may be an outlier. */
  readonly absolute?: boolean;
}

const selectRows = (profile: string): MeasuredRow[] =>
  paperRows.filter((row) => row.fitted && row.profile === profile);

/**
 * Limit of bandwidth efficiency: no kernel is faster than a copy, which reaches about this fraction of the
 * data sheet's bandwidth.
 */
const copyEfficiency = 0.92;

/** The fits of shipped profiles, in order: at most four constants of a GPU, two of a program. */
export const fits: readonly Fit[] = [
  {
    file: 'hardware/a100-80gb',
    rows: selectRows('a100-80gb-megatron'),
    description: 'Korthikanti et al. 2022, table 5, rows of 22 B and 175 B',
    start: [
      [['matmul', 'efficiency'], 0.8],
      [['memory', 'efficiency'], 0.85, copyEfficiency],
      [['memory', 'scoresEfficiency'], 0.75],
      [['linkInside', 'efficiency'], 0.75],
    ],
    inertia: 0.005,
  },
  {
    file: 'software/megatron-deepspeed',
    rows: selectRows('a100-80gb-deepspeed'),
    description: 'rows of 3.6 B of the multi-node measurements of vTrain',
    start: [
      [['hostSecondsPerOperation'], 1e-4],
      [['linkFactor'], 1, 1],
    ],
    inertia: 0,
    absolute: true,
  },
  {
    file: 'software/deepspeed-zero3',
    rows: selectRows('a100-80gb-zero3'),
    description: 'Narayanan et al. 2021, table 2, every second row of ZeRO-3',
    start: [
      [['shardedParameters', 'linkFactor'], 1],
      [['shardedParameters', 'overlap'], 1, 1],
    ],
    inertia: 0,
  },
  {
    file: 'hardware/h100-96gb',
    rows: selectRows('h100-96gb-torchtitan'),
    description: 'benchmarks of torchtitan, four of eight rows',
    start: [[['matmul', 'efficiency'], 0.72]],
    inertia: 0,
  },
  {
    file: 'hardware/v100-32gb',
    rows: selectRows('v100-32gb-megatron'),
    description: 'Shoeybi et al. 2019, 39 TFLOP/s of one GPU',
    start: [[['matmul', 'efficiency'], 0.8]],
    inertia: 0,
  },
];

/** Returns the cost that a fit minimizes: errors of its rows, and the distance from the start. */
export function computeCost(fit: Fit, point: readonly number[]): number {
  let cost = 0;
  for (const row of fit.rows) {
    const error = Math.log(
      predictStepTime(stepOfRow(row, withValues(listedProfile(loadProfile(row.profile)), fit, point)))
        .seconds / row.seconds,
    );
    cost += fit.absolute ? Math.abs(error) : error ** 2;
  }
  for (const [i, [, start]] of fit.start.entries()) cost += fit.inertia * Math.log(point[i]! / start) ** 2;
  return cost;
}

function withValues(profile: ListedProfile, fit: Fit, point: readonly number[]): ListedProfile {
  const changed = structuredClone(profile);
  const part = fit.file.startsWith('hardware') ? changed.hardware : changed.software;
  for (const [i, [keys]] of fit.start.entries()) {
    setConstant(part as unknown as Constants, keys, { value: point[i]!, source: 'trial', fitted: true });
  }
  return changed;
}

export type Constants = Record<string, unknown>;

export interface Constant {
  readonly value: number;
  readonly source: string;
  readonly fitted?: boolean;
}

/** Replaces a constant of a profile. */
export function setConstant(constants: Constants, keys: readonly string[], value: Constant): void {
  const parent = keys.slice(0, -1).reduce((part, key) => part[key] as Constants, constants);
  parent[keys.at(-1)!] = value;
}

/** A constant to minimize over: the start of the search, and its upper limit. */
interface Range {
  readonly start: number;
  readonly most?: number;
}

/**
 * Finds the minimum of a function near the start: one coordinate after the other, with shrinking steps. It is
 * deterministic.
 */
export function minimize(ranges: readonly Range[], cost: (point: readonly number[]) => number): number[] {
  let best = ranges.map(({ start }) => start);
  let lowest = cost(best);
  for (let step = 0.5; step > 1e-4; ) {
    const before = lowest;
    for (const [i, { most = Number.POSITIVE_INFINITY }] of ranges.entries()) {
      for (const factor of [1 + step, 1 / (1 + step)]) {
        const point = best.map((value, k) => (k === i ? Math.min(most, value * factor) : value));
        const value = cost(point);
        if (value < lowest) [best, lowest] = [point, value];
      }
    }
    if (lowest > before - 1e-9) step /= 2;
  }
  return best;
}
