import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { MetricsRows } from './metrics-rows.js';

let directory: string;
let path: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-rows-'));
  path = join(directory, 'metrics.jsonl');
});
afterEach(() => rmSync(directory, { recursive: true }));

const step = (iteration: number): string => `${JSON.stringify({ iteration, lm_loss: 1 })}\n`;
const experts = (iteration: number): string =>
  `${JSON.stringify({ type: 'experts', iteration, layers: ['decoder.layers.0.mlp'], loads: [[1, 3]], dropped: [0], entropy: [0.5] })}\n`;
const evaluation = (iteration: number): string =>
  `${JSON.stringify({ type: 'validation', iteration, lm_loss: 2 })}\n`;

describe('MetricsRows', () => {
  it('adds the loads of experts to the row of their step', async () => {
    writeFileSync(path, `${step(1)}${experts(1)}${evaluation(1)}${step(2)}${step(3)}${experts(3)}`);
    const rows = await new MetricsRows(path).read({ limit: 9, isOver: true });
    const ofExperts = {
      'experts/max_load': 1.5,
      'experts/dropped': 0,
      'experts/entropy': 0.5,
      'experts/layer_0/max_load': 1.5,
      'experts/layer_0/dropped': 0,
      'experts/layer_0/entropy': 0.5,
    };
    expect(rows.map(({ iteration, values }) => [iteration, values])).toEqual([
      [1, { 'lm loss': 1, ...ofExperts, 'lm loss validation': 2 }],
      [2, { 'lm loss': 1 }],
      [3, { 'lm loss': 1, ...ofExperts }],
    ]);
  });

  it('reads every row once, whatever the blocks, the requests and what was written when', async () => {
    const line = fc.constantFrom('step', 'evaluation', 'other', 'torn');
    const parameters = [
      fc.array(line, { maxLength: 30 }),
      fc.integer({ min: 1, max: 300 }),
      fc.integer({ min: 1, max: 7 }),
      fc.nat(30),
    ] as const;
    await fc.assert(
      fc.asyncProperty(...parameters, async (lines, block, limit, pause) => {
        writeFileSync(path, '');
        const rows = new MetricsRows(path, { block });
        const read: Array<readonly [number, boolean]> = [];
        const readAll = async (isOver: boolean): Promise<void> => {
          for (;;) {
            const some = await rows.read({ limit, isOver });
            if (some.length === 0) return;
            for (const { iteration, values } of some) read.push([iteration, 'lm loss validation' in values]);
          }
        };
        const expected: Array<[number, boolean]> = [];
        let iteration = 0;
        for (const [index, kind] of lines.entries()) {
          if (kind === 'step') {
            iteration += 1;
            appendFileSync(path, step(iteration));
            expected.push([iteration, false]);
          } else if (kind === 'evaluation') {
            appendFileSync(path, evaluation(iteration));
            if (expected.at(-1)?.[0] === iteration) expected.at(-1)![1] = true;
            else expected.push([iteration, true]);
          } else {
            appendFileSync(path, kind === 'other' ? '{"type":"sample","iteration":1}\n' : '{"iteration":\n');
          }
          if (index === pause) await readAll(false);
        }
        await readAll(true);
        expect(read).toEqual(expected);
        expect(rows.count).toBe(expected.length);
      }),
    );
  });

  it('leaves the last row until it is whole, and passes over rows', async () => {
    const rows = new MetricsRows(path);
    expect(await rows.read({ limit: 9, isOver: true })).toEqual([]);
    writeFileSync(path, `${step(1)}${step(2)}{"iteration":3`);
    expect(await rows.skip(1)).toBe(1);
    expect(await rows.read({ limit: 9, isOver: false })).toEqual([]);
    appendFileSync(path, `}\n`);
    expect(await rows.read({ limit: 9, isOver: false })).toMatchObject([{ iteration: 2 }]);
    expect(await rows.skip(9)).toBe(1);
  });
});
