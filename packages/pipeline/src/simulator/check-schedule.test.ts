import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  assertSchedule,
  buildSchedule,
  checkSchedule,
  type PipelineSchedule,
  type ScheduleAction,
  type ScheduleName,
} from '../schedules.js';

/** Generates small schedules of every kind. */
const anySchedule = fc
  .record({
    name: fc.constantFrom<ScheduleName>(
      'gpipe',
      '1f1b',
      'interleaved',
      'breadth-first',
      'zb-h1',
      'zb-h2',
      'zb-v',
    ),
    numStages: fc.integer({ min: 2, max: 6 }),
    groups: fc.integer({ min: 1, max: 3 }),
    extra: fc.integer({ min: 0, max: 5 }),
  })
  .map(({ name, numStages, groups, extra }) => {
    const hasGroups = name === 'interleaved';
    const numMicroBatches = numStages * groups + (hasGroups ? 0 : extra);
    return buildSchedule(name, { numStages, numMicroBatches });
  });

/** Generates a schedule and the position of one of its actions. */
const anyAction = anySchedule.chain((schedule) =>
  fc
    .record({ rank: fc.nat(schedule.actions.length - 1), position: fc.nat() })
    .map(({ rank, position }) => ({ schedule, rank, position: position % schedule.actions[rank]!.length })),
);

function withOrder(
  schedule: PipelineSchedule,
  rank: number,
  order: readonly ScheduleAction[],
): PipelineSchedule {
  return { ...schedule, actions: schedule.actions.with(rank, order) };
}

/**
 * Returns true if the actions can run, that is, if the graph of "must come before" has no cycle. This
 * function follows the definition of backpropagation over all pairs of kinds, and is independent of the
 * simulator's code.
 */
function canRun({ actions, placement }: PipelineSchedule): boolean {
  const nodes = actions.flatMap((order, rank) =>
    order.map((action, position) => ({ ...action, rank, position })),
  );
  const needs = nodes.map((node) =>
    nodes.flatMap((other, index) => {
      const same = other.microBatch === node.microBatch;
      const isNext = other.rank === node.rank && other.position === node.position - 1;
      const isInputGradient = other.kind === 'B' || other.kind === 'I';
      const feeds =
        same &&
        ((node.kind === 'F' && other.kind === 'F' && other.chunk === node.chunk - 1) ||
          (node.kind === 'W' && other.kind === 'I' && other.chunk === node.chunk) ||
          ((node.kind === 'B' || node.kind === 'I') &&
            ((other.kind === 'F' && other.chunk === node.chunk) ||
              (isInputGradient && node.chunk < placement.length - 1 && other.chunk === node.chunk + 1))));
      return isNext || feeds ? [index] : [];
    }),
  );
  const done = new Set<number>();
  for (let before = -1; before !== done.size; ) {
    before = done.size;
    needs.forEach((list, index) => {
      if (list.every((other) => done.has(other))) done.add(index);
    });
  }
  return done.size === nodes.length;
}

describe('checkSchedule on mutations', () => {
  const listKinds = (schedule: PipelineSchedule): string[] => checkSchedule(schedule).map(({ kind }) => kind);

  it('finds any action that was dropped', () => {
    fc.assert(
      fc.property(anyAction, ({ schedule, rank, position }) => {
        const dropped = withOrder(schedule, rank, schedule.actions[rank]!.toSpliced(position, 1));
        const { chunk, microBatch } = schedule.actions[rank]![position]!;
        const [problem, ...others] = checkSchedule(dropped);
        expect(problem).toMatchObject({ kind: 'missing', rank });
        expect(problem!.message).toMatch(new RegExp(`\\b${chunk}[FBIW]${microBatch}\\b`));
        expect(others).toEqual([]);
      }),
    );
  });

  it('finds any action that comes twice, wherever the copy stands', () => {
    fc.assert(
      fc.property(anyAction, fc.nat(), ({ schedule, rank, position }, to) => {
        const order = schedule.actions[rank]!;
        const copied = order.toSpliced(to % (order.length + 1), 0, order[position]!);
        expect(listKinds(withOrder(schedule, rank, copied))).toEqual(['repeated']);
      }),
    );
  });

  it('finds any action that moved to another rank', () => {
    fc.assert(
      fc.property(anyAction, fc.nat(), ({ schedule, rank, position }, shift) => {
        const to = (rank + 1 + (shift % (schedule.actions.length - 1))) % schedule.actions.length;
        const moved = withOrder(
          withOrder(schedule, rank, schedule.actions[rank]!.toSpliced(position, 1)),
          to,
          [...schedule.actions[to]!, schedule.actions[rank]![position]!],
        );
        expect(listKinds(moved)).toContain('misplaced');
      }),
    );
  });

  it('finds any action that became another one', () => {
    fc.assert(
      fc.property(
        anyAction,
        fc.constantFrom('kind', 'microBatch', 'outside'),
        ({ schedule, rank, position }, what) => {
          const action = schedule.actions[rank]![position]!;
          const others: Record<typeof what, ScheduleAction> = {
            kind: { ...action, kind: action.kind === 'F' ? 'B' : 'F' },
            microBatch: { ...action, microBatch: (action.microBatch + 1) % schedule.numMicroBatches },
            outside: { ...action, microBatch: schedule.numMicroBatches },
          };
          const changed = withOrder(schedule, rank, schedule.actions[rank]!.with(position, others[what]));
          expect(checkSchedule(changed)).not.toEqual([]);
        },
      ),
    );
  });

  it('finds two swapped actions exactly when the order can no longer run', () => {
    const seen = { broken: 0, fine: 0 };
    fc.assert(
      fc.property(anyAction, fc.nat({ max: 12 }), ({ schedule, rank, position }, distance) => {
        const order = schedule.actions[rank]!;
        const other = (position + distance) % order.length;
        const swapped = withOrder(
          schedule,
          rank,
          order.with(position, order[other]!).with(other, order[position]!),
        );
        const isFine = canRun(swapped);
        seen[isFine ? 'fine' : 'broken']++;
        const kinds = new Set(listKinds(swapped));
        if (isFine) expect(kinds).toEqual(new Set());
        else expect([['order'], ['deadlock']]).toContainEqual([...kinds]);
      }),
      // the seed is fixed, so that both valid and broken schedules occur
      { numRuns: 150, seed: 4 },
    );
    expect(seen.broken).toBeGreaterThan(20);
    expect(seen.fine).toBeGreaterThan(20);
  });

  it('finds a forward swapped with its own backward, and an input half with its weight half, always', () => {
    fc.assert(
      fc.property(anyAction, ({ schedule, rank, position }) => {
        const order = schedule.actions[rank]!;
        const { chunk, microBatch } = order[position]!;
        const same = order.flatMap((a, index) =>
          a.chunk === chunk && a.microBatch === microBatch ? [index] : [],
        );
        for (let pair = 0; pair + 1 < same.length; pair++) {
          const [first, second] = [same[pair]!, same[pair + 1]!];
          const swapped = order.with(first, order[second]!).with(second, order[first]!);
          expect(new Set(listKinds(withOrder(schedule, rank, swapped)))).toEqual(new Set(['order']));
        }
      }),
    );
  });
});

describe('checkSchedule', () => {
  const action = (text: string): ScheduleAction => {
    const [, chunk, kind, microBatch] = /^(\d+)(\w)(\d+)$/.exec(text)!;
    return { chunk: Number(chunk), kind: kind as ScheduleAction['kind'], microBatch: Number(microBatch) };
  };
  const makeSchedule = (numMicroBatches: number, lines: readonly string[]): PipelineSchedule => ({
    name: 'own',
    numMicroBatches,
    placement: lines.map((_, rank) => rank),
    actions: lines.map((line) => line.split(' ').map(action)),
  });

  it('names rank, pass and what it waits for in a deadlock', () => {
    // rank 0 needs the gradient of micro-batch 0 before it sends micro-batch 1, which rank 1 needs first
    const schedule = makeSchedule(2, ['0F0 0B0 0F1 0B1', '1F1 1B1 1F0 1B0']);
    expect(checkSchedule(schedule).map(({ message }) => message)).toEqual([
      'deadlock: rank 0 cannot run 0B0 (backward of micro-batch 0 on chunk 0); it waits for 1B0 of rank 1, which never runs',
      'deadlock: rank 1 cannot run 1F1 (forward of micro-batch 1 on chunk 1); it waits for 0F1 of rank 0, which never runs',
    ]);
    expect(() => assertSchedule(schedule)).toThrow(
      'schedule own: deadlock: rank 0 cannot run 0B0 (backward of micro-batch 0 on chunk 0); it waits for 1B0 of rank 1, which never runs (and 1 more)',
    );
  });

  it('takes a schedule that mixes whole and split backward', () => {
    expect(checkSchedule(makeSchedule(2, ['0F0 0F1 0B0 0I1 0W1', '1F0 1I0 1F1 1B1 1W0']))).toEqual([]);
  });

  it.each([
    [
      'both halves and one half',
      ['0F0 0B0 0W0', '1F0 1B0'],
      'rank 0 runs 0W0 together with 0B0, which holds both halves',
    ],
    ['an input half alone', ['0F0 0I0', '1F0 1B0'], 'rank 0 never runs 0W0'],
    ['a weight half alone', ['0F0 0W0', '1F0 1B0'], 'rank 0 never runs 0I0'],
    [
      'a forward alone',
      ['0F0', '1F0 1B0'],
      'rank 0 never runs backward of 0F0: neither 0B0, nor 0I0 and 0W0',
    ],
    ['a backward alone', ['0B0', '1F0 1B0'], 'rank 0 never runs 0F0'],
    [
      'a chunk that is not there',
      ['0F0 2B0', '1F0 1B0'],
      'rank 0 runs 2B0, but there are 2 chunks and 1 micro-batches',
    ],
    [
      'a kind that is not there',
      ['0F0 0X0', '1F0 1B0'],
      'rank 0 runs 0X0, but kinds of actions are F, B, I and W',
    ],
    ['a chunk of another rank', ['0F0 1B0', '1F0 0B0'], 'rank 0 runs 1B0, but chunk 1 lies on rank 1'],
    ['a weight half too early', ['0F0 0W0 0I0', '1F0 1B0'], 'rank 0 runs 0W0 before 0I0'],
  ])('refuses %s', (_, lines, message) => {
    expect(checkSchedule(makeSchedule(1, lines))[0]!.message).toBe(message);
  });

  it('refuses placements and sizes that are none', () => {
    const good = makeSchedule(1, ['0F0 0B0', '1F0 1B0']);
    expect(checkSchedule({ ...good, placement: [0, 2] })[0]!.message).toBe('chunk 1 lies on rank 2 of 2');
    expect(checkSchedule({ ...good, placement: [] })[0]!.message).toBe('it has no chunks');
    expect(checkSchedule({ ...good, numMicroBatches: 0 })[0]!.message).toBe('it has 0 micro-batches');
  });

  it.each<[change: object, message: RegExp]>([
    [{ placement: undefined }, /its placement is no list of ranks/],
    [{ actions: undefined }, /its actions are no list for each rank/],
    [{ actions: [{}, []] }, /its actions are no list for each rank/],
    [{ actions: [['0F0'], []] }, /rank 0 runs "0F0", which is no \{ kind, chunk, microBatch \}/],
    [{ actions: [[null], []] }, /rank 0 runs null, which is no/],
  ])('refuses what is no schedule: %j', (change, message) => {
    const wrong = { ...makeSchedule(1, ['0F0 0B0', '1F0 1B0']), ...change } as PipelineSchedule;
    expect(() => assertSchedule(wrong)).toThrow(message);
  });

  it('stops at 20 problems, however many micro-batches are missing', () => {
    expect(checkSchedule({ ...makeSchedule(1, ['0F0 0B0', '1F0 1B0']), numMicroBatches: 1e9 })).toHaveLength(
      20,
    );
  });
});
