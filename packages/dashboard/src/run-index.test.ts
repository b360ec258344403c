import { appendFileSync, renameSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { lines, RunFolders, step, steps } from '../test/run-folders.js';
import { RunIndex } from './run-index.js';

const folders = new RunFolders();
afterAll(() => folders.dispose());

const all = { axis: 'iteration', numPoints: 1000, smoothing: 0 } as const;

function newRun(name: string): { readonly path: string; readonly index: RunIndex } {
  folders.append(name);
  const path = join(folders.path, name, 'metrics.jsonl');
  return { path, index: new RunIndex(path) };
}

describe('RunIndex', () => {
  it('reads what was appended, whole lines only, each byte once', async () => {
    const { path, index } = newRun('appended');
    folders.append('appended', ...steps(1, 5000));
    await index.update();
    expect(index.steps.length).toBe(5000);
    const half = JSON.stringify(step(5001));
    appendFileSync(path, half.slice(0, 40));
    await index.update();
    expect(index.steps.length).toBe(5000);
    const handle = await open(path);
    const read = vi.spyOn(Object.getPrototypeOf(handle) as FileHandle, 'read');
    await handle.close();
    appendFileSync(path, `${half.slice(40)}\n`);
    await index.update();
    expect(index.steps.iterations.at(-1)).toBe(5001);
    const results = await Promise.all(
      read.mock.results.map(({ value }) => value as ReturnType<FileHandle['read']>),
    );
    const bytes = results.reduce((sum, { bytesRead }) => sum + bytesRead, 0);
    read.mockRestore();
    // only the new line is read, and the few bytes before it, which prove that the rest of the file has not
    // changed
    expect(bytes).toBeLessThan(half.length + 200);
    expect(statSync(path).size).toBeGreaterThan(1_000_000);
  });

  it('reads 100,000 steps once, then one line for each further step, and gives a browser what it can show', async () => {
    const { path, index } = newRun('long');
    folders.append('long', ...steps(1, 100_000));
    const parsed = vi.spyOn(JSON, 'parse');
    await index.update();
    expect(parsed).toHaveBeenCalledTimes(100_000);
    expect(index.steps.length).toBe(100_000);
    parsed.mockClear();
    const handle = await open(path);
    const read = vi.spyOn(Object.getPrototypeOf(handle) as FileHandle, 'read');
    await handle.close();
    folders.append('long', step(100_001, { lm_loss: 99 }));
    await index.update();
    expect(parsed).toHaveBeenCalledTimes(1);
    parsed.mockRestore();
    const results = await Promise.all(
      read.mock.results.map(({ value }) => value as ReturnType<FileHandle['read']>),
    );
    read.mockRestore();
    const bytes = results.reduce((sum, { bytesRead }) => sum + bytesRead, 0);
    // only the new line is read, and the bytes before it, which prove that the rest of the file has not
    // changed
    expect(bytes).toBeLessThan(1000);
    const { x, y, smoothed } = index.series({ ...all, name: 'lm_loss', smoothing: 0.9 })!;
    // each bucket has its smallest and its largest value
    for (const points of [x, smoothed!.x]) expect(points.length).toBeLessThanOrEqual(2 * all.numPoints + 2);
    expect(x.at(-1)).toBe(100_001);
    expect(Math.max(...y.map(Number))).toBe(99);
  });

  it('begins again where the file was replaced or cut, as resumed runs do', async () => {
    const { path, index } = newRun('replaced');
    folders.append('replaced', ...steps(1, 20));
    await index.update();
    writeFileSync(`${path}.new`, lines(steps(1, 10)));
    renameSync(`${path}.new`, path);
    await index.update();
    expect(index.steps.length).toBe(10);
    // the file is replaced by a new file that has the same size and ends with the same bytes
    writeFileSync(`${path}.new`, lines([step(1, { lm_loss: 9 }), ...steps(2, 10)]));
    renameSync(`${path}.new`, path);
    await index.update();
    expect(index.steps.column('lm_loss')?.[0]).toBe(9);
    const { size } = statSync(path);
    folders.append('replaced', { type: 'validation', iteration: 10, lm_loss: 4 });
    await index.update();
    truncateSync(path, size);
    folders.append('replaced', { type: 'validation', iteration: 10, lm_loss: 3 }, ...steps(11, 12));
    await index.update();
    expect(index.steps.length).toBe(12);
    expect(index.validations.last('lm_loss')).toBe(3);
  });

  it('takes the steps of a resumed run for those that it computes again', async () => {
    const { index } = newRun('again');
    folders.append('again', ...steps(1, 10), step(8, { lm_loss: 1 }));
    await index.update();
    expect([...index.steps.iterations]).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(index.steps.last('lm_loss')).toBe(1);
  });

  it("takes BERT's losses of an older version by the names of today, and goes on with newer steps", async () => {
    const { index } = newRun('older');
    const older = (iteration: number) => ({ iteration, lm_loss: 7.5, mlm_loss: 7, sop_loss: 0.5 });
    folders.append('older', older(1), older(2), { ...older(2), type: 'validation' });
    folders.append('older', { iteration: 3, lm_loss: 6, sop_loss: 0.5, total_loss: 6.5 });
    await index.update();
    expect([...index.steps.column('lm_loss')!]).toEqual([7, 7, 6]);
    expect([...index.steps.column('total_loss')!]).toEqual([7.5, 7.5, 6.5]);
    expect(index.validations.last('lm_loss')).toBe(7);
    expect(index.names).not.toContain('mlm_loss');
  });

  it('leaves out lines that are no records, and tells of other types', async () => {
    const { path, index } = newRun('other');
    writeFileSync(path, 'torn {\n[1]\nnull\n{"iteration":1.5}\n');
    const sources = [{ source: 'corpus', documents: [3, 4] }];
    folders.append('other', step(1), {
      type: 'spike',
      iteration: 1,
      action: 'skip',
      lm_loss: 12.34567,
      lm_loss_limit: 8,
      sources,
    });
    folders.append('other', { type: 'spike', iteration: 2, action: 'update', grad_norm: 1234.5 });
    folders.append('other', { type: 'new_thing', iteration: 3, list: [1, 2.34567], of: { a: 'b' } });
    await index.update();
    expect(index.steps.length).toBe(1);
    const [other, reported, ...spikes] = index.events;
    expect(other).toMatchObject({ kind: 'event', text: 'new thing: list 1 2.346, of a b' });
    expect(reported).toMatchObject({
      kind: 'reported',
      text: 'spike: gradient norm 1,235; its update was kept',
    });
    expect(spikes).toEqual([
      {
        type: 'spike',
        time: null,
        iteration: 1,
        kind: 'spike',
        text: 'spike: training loss 12.35 (limit 8); its update was skipped',
      },
    ]);
  });

  it('has curves over steps, tokens and seconds, smoothed where asked for', async () => {
    const { index } = newRun('axes');
    const losses = [4, null, 2];
    folders.append('axes', ...losses.map((lm_loss, place) => step(place + 1, { lm_loss })), {
      type: 'validation',
      iteration: 2,
      lm_loss: 3.5,
    });
    await index.update();
    const name = 'lm_loss';
    expect(index.series({ ...all, name })).toEqual({
      x: [1, 2, 3],
      y: [4, null, 2],
      band: null,
      smoothed: null,
    });
    expect(index.series({ ...all, name, axis: 'tokens' })?.x).toEqual([2048, 4096, 6144]);
    expect(index.series({ ...all, name, axis: 'seconds' })?.x).toEqual([0.5, 1, 1.5]);
    const validation = { ...all, name: 'validation.lm_loss', axis: 'seconds' } as const;
    expect(index.series(validation)).toEqual({ x: [1], y: [3.5], band: null, smoothed: null });
    // (0.25 * 4 + 0.5 * 2), divided by the sum of the weights, 0.75
    const smoothed = index.series({ ...all, name, smoothing: 0.5 })?.smoothed;
    expect(smoothed).toEqual({ x: [1, 2, 3], y: [4, null, (1 + 1) / 0.75] });
    expect(index.series({ ...all, name: 'nothing' })).toBeUndefined();
  });

  it('shows what each rank took, and which are slow, as the run has found', async () => {
    const { index } = newRun('ranks');
    const figures = {
      type: 'ranks',
      compute_ms: [50, 48, 90],
      waited_ms: [40, 42, 0],
      peak_bytes: [1, 2, 3],
    };
    folders.append(
      'ranks',
      { ...figures, iteration: 4, hosts: ['a', 'a', 'b'] },
      { type: 'slow_rank', iteration: 4, rank: 2, host: 'b', is_slow: true },
      { ...figures, iteration: 8 },
    );
    await index.update();
    const known = { iteration: 8, computeMs: [50, 48, 90], waitedMs: [40, 42, 0], peakBytes: [1, 2, 3] };
    expect(index.ranks).toEqual({ ...known, hosts: ['a', 'a', 'b'], slow: [2] });
    expect(index.events).toMatchObject([{ type: 'slow_rank', text: 'rank 2 on b is slow' }]);
    folders.append('ranks', { type: 'slow_rank', iteration: 12, rank: 2, host: 'b', is_slow: false });
    await index.update();
    expect(index.ranks).toMatchObject({ slow: [] });
  });
});
