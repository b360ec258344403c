import type { RanksOfRun } from './api-types.js';

/** A rank that computes longer than the median of all by more than this part is named. */
const leastExcess = 0.1;

type Numbers = readonly (number | null)[];

/** What a record of type `ranks` says; null where it is not whole. */
export function ranksOf(record: Readonly<Record<string, unknown>>): RanksOfRun | null {
  const stepMs = numbersIn(record.step_ms);
  const communicationMs = numbersIn(record.communication_ms);
  const peakBytes = numbersIn(record.peak_bytes);
  const { iteration, hosts } = record;
  const size = stepMs.length;
  if (typeof iteration !== 'number' || size === 0) return null;
  return {
    iteration,
    stepMs,
    communicationMs,
    peakBytes,
    hosts: Array.isArray(hosts) ? hosts.map((host) => (typeof host === 'string' ? host : null)) : [],
    slowest: slowestOf(stepMs.map((step, rank) => difference(step, communicationMs[rank]))),
  };
}

function numbersIn(value: unknown): Numbers {
  if (!Array.isArray(value)) return [];
  return value.map((item) => (typeof item === 'number' ? item : null));
}

function difference(one: number | null, other: number | null | undefined): number {
  return one === null ? Number.NaN : one - (other ?? 0);
}

/** The rank with the most milliseconds of computing, where that is far above the median. */
function slowestOf(computing: readonly number[]): number | null {
  const known = computing.filter(Number.isFinite).sort((a, b) => a - b);
  if (known.length < 2) return null;
  const half = known.length / 2;
  const median = (known[Math.ceil(half) - 1]! + known[Math.floor(half)]!) / 2;
  const most = known.at(-1)!;
  return most > (1 + leastExcess) * median ? computing.indexOf(most) : null;
}
