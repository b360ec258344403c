import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { loadScheduleModule } from './pipeline-schedule.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-schedule-module-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

let numWritten = 0;
function writeModule(source: string, ending = 'mjs'): string {
  numWritten += 1;
  const path = join(directory, `own-${numWritten}.${ending}`);
  writeFileSync(path, source);
  return path;
}

/** The source of a schedule. Each stage runs all forward passes of a chunk, then all its backward passes. */
const body = `({ numStages, numMicroBatches }) => {
  const all = (kind, chunk) => Array.from({ length: numMicroBatches }, (_, microBatch) => ({ kind, chunk, microBatch }));
  const stages = Array.from({ length: numStages }, (_, stage) => stage);
  return { numMicroBatches, placement: stages, actions: stages.map((chunk) => [...all('F', chunk), ...all('B', chunk)]) };
}`;
const size = { numStages: 2, numMicroBatches: 3, numChunks: 1 };

describe('loadScheduleModule', () => {
  it.each([
    ['mjs', `export default ${body};`],
    ['cjs', `module.exports = ${body};`],
  ])('gives the function of a .%s file, for every size', (ending, source) => {
    const path = writeModule(source, ending);
    const make = loadScheduleModule(path);
    expect(make(size)).toMatchObject({ name: path, numMicroBatches: 3, placement: [0, 1] });
    const { actions } = make({ numStages: 3, numMicroBatches: 1 });
    expect(actions[2]!.map(({ kind }) => kind)).toEqual(['F', 'B']);
  });

  it.each<[what: string, source: string, code: string, says: RegExp]>([
    [
      'no function',
      'export default 1;',
      'MTL_SCHEDULE_MODULE',
      /own-\d+\.mjs: its default export is no func/,
    ],
    ['no default export', `export const make = ${body};`, 'MTL_SCHEDULE_MODULE', /is no function/],
    ['no JavaScript', 'export default (', 'MTL_SCHEDULE_MODULE', /own-\d+\.mjs: /],
    [
      'an error',
      'export default () => { throw new Error("not today"); };',
      'MTL_SCHEDULE_MODULE',
      /not today/,
    ],
    ['nothing', 'export default () => {};', 'MTL_SCHEDULE_MODULE', /no schedule/],
    [
      'lists that are none',
      'export default () => ({ numMicroBatches: 3, placement: [0, 1], actions: [1, 2] });',
      'MTL_SCHEDULE_MODULE',
      /no schedule/,
    ],
    [
      'a schedule of another size',
      `export default (size) => (${body})({ ...size, numMicroBatches: 4 });`,
      'MTL_SCHEDULE_MODULE',
      /made 4 micro-batches/,
    ],
    [
      'an order that cannot run',
      `export default (size) => {
        const { actions, ...rest } = (${body})(size);
        return { ...rest, actions: actions.map((order) => order.toReversed()) };
      };`,
      'MTL_SCHEDULE_INVALID',
      /runs 0B2 before 0F2/,
    ],
  ])('refuses %s', (_, source, code, says) => {
    const path = writeModule(source);
    expect(() => loadScheduleModule(path)(size)).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(says), exitCode: 2 }),
    );
  });

  it('refuses other chunks than asked for, and takes any where no number is given', () => {
    const make = loadScheduleModule(writeModule(`export default ${body};`));
    expect(() => make({ ...size, numChunks: 2 })).toThrow(
      expect.objectContaining({
        code: 'MTL_SCHEDULE_MODULE',
        message: expect.stringContaining('made 2 chunks'),
        expected: '4 chunks',
      }),
    );
    expect(make({ ...size, numChunks: undefined }).placement).toEqual([0, 1]);
  });

  it('refuses a file that is not there', () => {
    expect(() => loadScheduleModule(join(directory, 'none.mjs'))).toThrow(
      expect.objectContaining({ code: 'MTL_SCHEDULE_MODULE', message: expect.stringContaining('none.mjs') }),
    );
  });
});
