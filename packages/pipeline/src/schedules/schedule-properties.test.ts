import { numberInRuns } from '@mtl/tooling/in-whole-runs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ofEveryChunk } from '../../test/support/of-every-chunk.js';
import {
  buildSchedule,
  checkSchedule,
  formatScheduleCsv,
  type PipelineSchedule,
  parseScheduleCsv,
  peakActivations,
  type ScheduleName,
  type ScheduleSize,
  simulateSchedule,
} from '../schedules.js';

interface Case extends ScheduleSize {
  readonly name: ScheduleName;
  readonly numChunks: number;
}

const range = (first: number, last: number): number[] => {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index);
};

/**
 * Returns all sizes that the schedule supports, with p up to 16 (8 in a fast run), m up to 64 (24 in a fast
 * run) and v up to 4. Groups have their default size.
 */
function allCases(name: ScheduleName): Case[] {
  const chunks = { interleaved: [2, 3, 4], 'breadth-first': [1, 2, 3, 4], 'zb-v': [2] } as Partial<
    Record<ScheduleName, number[]>
  >;
  const mostStages = numberInRuns({ whole: 16, fast: 8 });
  const mostMicroBatches = numberInRuns({ whole: 64, fast: 24 });
  return range(2, mostStages).flatMap((numStages) =>
    range(1, mostMicroBatches)
      .filter((numMicroBatches) => name !== 'interleaved' || numMicroBatches % numStages === 0)
      .flatMap((numMicroBatches) =>
        (chunks[name] ?? [1]).map((numChunks) => ({ name, numStages, numMicroBatches, numChunks })),
      ),
  );
}

/**
 * Collects violations over many cases. A single assertion at the end is fast, and its message shows the first
 * failures.
 */
function collectFailures(
  cases: readonly Case[],
  problem: (schedule: PipelineSchedule, size: Case) => unknown,
): unknown[] {
  const failures: unknown[] = [];
  for (const size of cases) {
    const found = problem(buildSchedule(size.name, size), size);
    if (found !== undefined) failures.push({ ...size, found });
    if (failures.length === 5) break;
  }
  return failures;
}

/**
 * The sizes M_B and M_W in the formulas. M_W is smaller than M_B, as in every transformer: in the papers, M_W
 * is `32 * s * b * h` and M_B is `34 * s * b * h + 5 * a * s^2 * b`.
 */
const [forInput, forWeight] = [4, 3];

interface ExpectedPeak {
  readonly numUntilInput?: number;
  readonly numUntilWeight?: number;
  readonly numAlive: number;
  readonly size?: number;
}

/**
 * Returns the peak according to the tables in the papers, independently of the code that builds schedules.
 */
function expectedPeak({ name, ...size }: Case, rank: number): ExpectedPeak {
  const { numStages: p, numMicroBatches: m, numChunks: v, microBatchGroupSize: group = p } = size;
  const whole = (numAlive: number): ExpectedPeak => {
    return { numUntilInput: numAlive, numUntilWeight: 0, numAlive, size: numAlive * forInput };
  };
  // `ahead` forward passes before the first backward pass, and `behind` weight halves that lag behind, both
  // limited by m
  const split = (ahead: number, behind: number): ExpectedPeak => {
    const [a, w] = [Math.min(m, ahead), Math.min(behind, m - Math.min(m, ahead))];
    return { numUntilInput: a, numAlive: a + w, size: a * forInput + w * forWeight };
  };
  if (name === 'gpipe') return whole(m);
  if (name === '1f1b') return whole(Math.min(m, p - rank));
  if (name === 'breadth-first') return whole(m * v);
  if (name === 'interleaved') return whole(Math.min(m * v, 2 * (p - rank - 1) + (v - 1) * group + 1));
  if (name === 'zb-h1') return split(p - rank, rank);
  if (name === 'zb-h2') return split(2 * p - 2 * rank - 1, 2 * rank);
  // for ZB-V, if m is large enough for the complete pattern, the peak is half of what p stages of 1F1B need
  return { numUntilWeight: 2 * rank + 1, numAlive: 2 * p };
}

function isPeakCovered({ name, numStages, numMicroBatches }: Case): boolean {
  return name !== 'zb-v' || numMicroBatches >= 2 * numStages - 1;
}

function wrongPeak(schedule: PipelineSchedule, size: Case): unknown {
  const peaks = peakActivations(schedule, { untilInput: forInput, untilWeight: forWeight });
  for (const [rank, peak] of peaks.entries()) {
    if (!isPeakCovered(size)) {
      if (peak.numAlive > 2 * size.numStages) return { rank, peak };
      continue;
    }
    const expected = expectedPeak(size, rank);
    const differs = (Object.keys(expected) as Array<keyof ExpectedPeak>).some(
      (key) => peak[key] !== expected[key],
    );
    if (differs) return { rank, peak, expected };
  }
  return undefined;
}

const everyCase = {
  gpipe: allCases('gpipe'),
  '1f1b': allCases('1f1b'),
  interleaved: allCases('interleaved'),
  'breadth-first': allCases('breadth-first'),
  'zb-h1': allCases('zb-h1'),
  'zb-h2': allCases('zb-h2'),
  'zb-v': allCases('zb-v'),
} satisfies Record<ScheduleName, Case[]>;

describe('every p, m and v', () => {
  it('is the number of cases that it should be', { tags: ['whole'] }, () => {
    expect(Object.values(everyCase).map((cases) => cases.length)).toEqual([
      960, 960, 441, 3840, 960, 960, 960,
    ]);
  });

  it.each(Object.entries(everyCase))(
    '%s is valid, and keeps alive what its formula says on every rank',
    (_, cases) => {
      const failures = collectFailures(
        cases,
        (schedule, size) => checkSchedule(schedule)[0] ?? wrongPeak(schedule, size),
      );
      expect(failures).toEqual([]);
    },
  );

  /**
   * Keeps every p and v, but only a third of the values of m. The formulas are linear in m, and these
   * simulations take most of this file's test time.
   */
  const thinned = (cases: readonly Case[]): Case[] => {
    return cases.filter(({ numStages, numMicroBatches }) => numMicroBatches % 3 === numStages % 3);
  };

  // times are integers, so that sums are exact
  const [forward, backwardInput, backwardWeight] = [3, 4, 2];
  const work = forward + backwardInput + backwardWeight;
  const times = { forward, backwardInput, backwardWeight };

  it.each([
    ['gpipe', () => true],
    ['1f1b', () => true],
    ['interleaved', () => true],
    // with fewer micro-batches than stages, the first rank must wait for the input of its second chunk, so
    // the bubble is larger
    ['breadth-first', ({ numStages, numMicroBatches }: Case) => numMicroBatches >= numStages],
  ] as const)('%s has the bubble (p-1)/(v m)', (name, isExact) => {
    const exact = everyCase[name].filter(isExact);
    const failures = collectFailures(
      name === 'breadth-first' ? thinned(exact) : exact,
      (schedule, { numStages, numMicroBatches, numChunks }) => {
        const { makespan, bubbleFraction } = simulateSchedule({
          schedule,
          times: ofEveryChunk(schedule, times),
        });
        const fraction = (numStages - 1) / (numChunks * numMicroBatches);
        // the makespan is exact; the fraction is a quotient of two sums, with a few rounding errors of 2^-53
        const holds =
          makespan === (numChunks * numMicroBatches + numStages - 1) * work &&
          Math.abs(bubbleFraction - fraction) <= 1e-14 * fraction;
        return holds ? undefined : { makespan, bubbleFraction };
      },
    );
    expect(failures).toEqual([]);
  });

  it('breadth-first with fewer micro-batches than stages has a larger one', () => {
    const small = everyCase['breadth-first'].filter(
      ({ numStages, numMicroBatches, numChunks }) => numMicroBatches < numStages && numChunks > 1,
    );
    const failures = collectFailures(small, (schedule, { numStages, numMicroBatches, numChunks }) => {
      const { makespan } = simulateSchedule({ schedule, times: ofEveryChunk(schedule, times) });
      return makespan > (numChunks * numMicroBatches + numStages - 1) * work ? undefined : makespan;
    });
    expect(failures).toEqual([]);
  });

  it('ZB-H1 has the bubble (p-1)(T_F + T_B - T_W) from p micro-batches on', () => {
    const cases = everyCase['zb-h1'].filter(({ numStages, numMicroBatches }) => numMicroBatches >= numStages);
    const failures = collectFailures(cases, (schedule, { numStages, numMicroBatches }) => {
      const { makespan } = simulateSchedule({ schedule, times: ofEveryChunk(schedule, times) });
      const bubble = (numStages - 1) * (forward + backwardInput - backwardWeight);
      return makespan === numMicroBatches * work + bubble ? undefined : makespan;
    });
    expect(failures).toEqual([]);
  });

  it('ZB-H2 has (p-1)(T_F + T_B - 2 T_W) from 2p-1 on, ZB-V none with equal times; p-1 with the barrier', () => {
    const hasRoom = ({ numStages, numMicroBatches }: Case): boolean => numMicroBatches >= 2 * numStages - 1;
    const failures = collectFailures(
      everyCase['zb-h2'].filter(hasRoom),
      (schedule, { numStages, numMicroBatches }) => {
        const { stepTime } = simulateSchedule({
          schedule,
          times: ofEveryChunk(schedule, times),
          barrier: false,
        });
        const bubble = (numStages - 1) * (forward + backwardInput - 2 * backwardWeight);
        return stepTime === numMicroBatches * work + bubble ? undefined : stepTime;
      },
    );
    expect(failures).toEqual([]);
    const equal = thinned([...everyCase['zb-h2'], ...everyCase['zb-v']].filter(hasRoom));
    const zeroes = collectFailures(equal, (schedule, { numStages, numMicroBatches, numChunks }) => {
      const ones = ofEveryChunk(schedule, { forward: 1, backwardInput: 1, backwardWeight: 1 });
      const free = simulateSchedule({ schedule, times: ones, barrier: false });
      const bound = simulateSchedule({ schedule, times: ones });
      const ideal = 3 * numMicroBatches * numChunks;
      const holds =
        free.stepTime === ideal && free.bubbleFraction === 0 && bound.stepTime === ideal + numStages - 1;
      return holds ? undefined : [free.stepTime, bound.stepTime];
    });
    expect(zeroes).toEqual([]);
  });
});

describe('any times', () => {
  const time = fc.integer({ min: 1, max: 50 });
  const times = fc.record({ forward: time, backwardInput: time, backwardWeight: time });
  const pipeline = fc.record({
    numStages: fc.integer({ min: 2, max: 16 }),
    numMicroBatches: fc.integer({ min: 1, max: 64 }),
  });

  it('GPipe and 1F1B take (m + p - 1)(T_F + T_B + T_W)', () => {
    fc.assert(
      fc.property(pipeline, times, fc.constantFrom('gpipe', '1f1b'), (size, t, name) => {
        const { makespan } = simulateSchedule({ schedule: buildSchedule(name, size), times: t });
        const work = t.forward + t.backwardInput + t.backwardWeight;
        expect(makespan).toBe((size.numMicroBatches + size.numStages - 1) * work);
      }),
      { numRuns: 200 },
    );
  });

  it('ZB-H1 has its formula exactly where neither forward nor input half is shorter than the weight half', () => {
    fc.assert(
      fc.property(pipeline, times, (size, t) => {
        fc.pre(size.numMicroBatches >= 2 * size.numStages - 1);
        const { makespan } = simulateSchedule({ schedule: buildSchedule('zb-h1', size), times: t });
        const { forward: f, backwardInput: b, backwardWeight: w } = t;
        const formula = size.numMicroBatches * (f + b + w) + (size.numStages - 1) * (f + b - w);
        if (Math.min(f, b) >= w) expect(makespan).toBe(formula);
        else expect(makespan).toBeGreaterThan(formula);
      }),
      { numRuns: 200 },
    );
  });

  it('splitting backward never makes 1F1B slower, interleaving never slower than 1F1B at whole groups', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 8 }),
        fc.integer({ min: 1, max: 4 }),
        times,
        (numStages, groups, t) => {
          const size = { numStages, numMicroBatches: numStages * groups };
          const of = (name: string, numChunks?: number) =>
            simulateSchedule({ schedule: buildSchedule(name, { ...size, numChunks }), times: t }).makespan;
          const plain = of('1f1b');
          expect(of('zb-h1')).toBeLessThanOrEqual(plain);
          expect(of('interleaved', 2)).toBeLessThan(plain);
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('any group size of the interleaved schedule', () => {
  /** Valid group sizes, over the whole range. */
  const grouped = fc
    .record({
      numStages: fc.integer({ min: 2, max: 16 }),
      extra: fc.integer({ min: 0, max: 48 }),
      numGroups: fc.integer({ min: 1, max: 8 }),
      rest: fc.integer({ min: 0, max: 63 }),
      numChunks: fc.integer({ min: 2, max: 4 }),
    })
    .map(({ numStages, extra, numGroups, rest, numChunks }): Case => {
      const microBatchGroupSize = numStages + extra;
      const short = rest >= numStages && rest < microBatchGroupSize ? rest : 0;
      const numMicroBatches = numGroups * microBatchGroupSize + short;
      return { name: 'interleaved', numStages, numMicroBatches, numChunks, microBatchGroupSize };
    })
    .filter(({ numMicroBatches }) => numMicroBatches <= 64);

  it('is valid, keeps what its formula says and has the bubble (p-1)/(v m)', () => {
    fc.assert(
      fc.property(grouped, (size) => {
        const schedule = buildSchedule('interleaved', size);
        expect(checkSchedule(schedule)).toEqual([]);
        expect(wrongPeak(schedule, size)).toBeUndefined();
        const times = ofEveryChunk(schedule, { forward: 1, backwardInput: 1, backwardWeight: 1 });
        const { makespan } = simulateSchedule({ schedule, times });
        expect(makespan).toBe(3 * (size.numMicroBatches * size.numChunks + size.numStages - 1));
      }),
      { numRuns: 300 },
    );
  });

  it('is taken exactly when p <= N <= m and the last group fills the pipeline', () => {
    const wrong: unknown[] = [];
    for (const numStages of range(2, 6)) {
      for (const numMicroBatches of range(1, 20)) {
        for (const group of range(1, 22)) {
          const size = { numStages, numMicroBatches, numChunks: 2, microBatchGroupSize: group };
          const rest = numMicroBatches % group;
          const isValid = group >= numStages && group <= numMicroBatches && (rest === 0 || rest >= numStages);
          let isTaken = true;
          try {
            buildSchedule('interleaved', size);
          } catch {
            isTaken = false;
          }
          if (isTaken !== isValid) wrong.push(size);
        }
      }
    }
    expect(wrong).toEqual([]);
  });
});

describe('schedule files', () => {
  it('hold any schedule: written and read again it is the same', () => {
    const anyCase = fc.oneof(...Object.values(everyCase).map((cases) => fc.constantFrom(...cases)));
    fc.assert(
      fc.property(anyCase, (size) => {
        const schedule = buildSchedule(size.name, size);
        const text = formatScheduleCsv(schedule);
        const read = parseScheduleCsv(text, { name: schedule.name });
        expect(read).toEqual(schedule);
        expect(formatScheduleCsv(read)).toBe(text);
      }),
      { numRuns: 60 },
    );
  });
});
