import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { serialize } from 'node:v8';
import { expect, it, onTestFinished } from 'vitest';
import { readStates } from '../parity/states.mjs';

/** Sums of squares of a tensor, on one rank. */
type Sums = { iteration: number; name: string; difference: number; norm: number; change: number };

function writeStates(...ranks: readonly (readonly Sums[])[]): ReturnType<typeof readStates> {
  const directory = mkdtempSync(join(tmpdir(), 'mtl-parity-states-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  for (const [rank, sums] of ranks.entries())
    writeFileSync(join(directory, `states-${rank}.bin`), serialize(sums));
  return readStates(directory);
}

it('a state differs by what the step changed of the worst tensor, over all ranks that hold parts of it', () => {
  const part = { iteration: 1, difference: 1e-8, norm: 1, change: 4e-4 };
  const other = { ...part, name: 'other', difference: 1e-12 };
  const steps = writeStates(
    [{ ...part, name: 'shared' }, other],
    [{ ...part, name: 'shared', difference: 7e-8 }],
  );
  // the difference sqrt(8e-8), minus the rounding of values of norm sqrt(2), relative to the change
  // sqrt(8e-4)
  expect(steps[1]!.name).toBe('shared');
  expect(steps[1]!.difference).toBeCloseTo(1e-2, 4);
});

it('one rounding of values is no difference, but before the first step, where all bits are the same', () => {
  const rounded = { name: 'weight', difference: 2 ** -48, norm: 4, change: 0 };
  const steps = writeStates([
    { ...rounded, iteration: 0 },
    { ...rounded, iteration: 1 },
    { ...rounded, iteration: 2, difference: 2 ** -40 },
  ]);
  expect(steps.map((step) => step?.difference)).toEqual([
    Number.POSITIVE_INFINITY,
    0,
    Number.POSITIVE_INFINITY,
  ]);
});

it('a value that is no number is no state that agrees, whatever follows', () => {
  const wrong = { iteration: 1, name: 'wrong', difference: Number.NaN, norm: 1, change: 1 };
  const steps = writeStates([wrong, { ...wrong, name: 'right', difference: 0 }]);
  expect(steps[1]).toEqual({ difference: Number.POSITIVE_INFINITY, name: 'wrong' });
});
