import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findGpu } from '@mtl/kernels/internal';
import { prepareCorpus } from '@mtl/runs/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bounds } from '../parity-training.js';
import { readMetrics } from '../run-gpt-train.js';
import { runRanks } from '../run-ranks.js';

const { title, problem, isEmulated } = findGpu();
const numSteps = 2;
const timed = ['--time-matmuls'];
const layouts = {
  'pp 2': { numProcesses: 2, flags: [...timed, '--pipeline-model-parallel-size', '2'] },
  'tp 2': { numProcesses: 2, flags: [...timed, '--tensor-model-parallel-size', '2', '--sequence-parallel'] },
  'dp 2': { numProcesses: 2, flags: [...timed, '--use-distributed-optimizer'] },
} as const;
/**
 * Bytes of a message between stages. A message that its receiver has not taken yet is still in memory when
 * the next pass begins; this depends on the timing of the ranks.
 */
const messageBytes = 16 * 32 * 4;
const without = (flags: readonly string[]): string[] => flags.filter((flag) => !timed.includes(flag));

interface RunOptions {
  readonly flags?: readonly string[];
  readonly numProcesses?: number;
  /** Folder in which the choices are kept. Default: `cache`. */
  readonly cache?: string;
  readonly isRefused?: boolean;
}

describe.skipIf(problem !== undefined)(`gpt-train --time-matmuls (${title})`, () => {
  let directory: string;
  let recipe: string[];

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-time-matmuls-'));
    recipe = [
      ...(await prepareCorpus(directory)),
      ...['--device', 'cuda', '--preset', 'none', '--num-layers', '2', '--hidden-size', '32'],
      ...['--num-attention-heads', '2', '--seq-length', '16', '--max-position-embeddings', '16'],
      ...['--micro-batch-size', '1', '--global-batch-size', '2', '--train-iters', String(numSteps)],
      ...['--lr', '1e-3', '--lr-decay-style', 'constant', '--eval-iters', '0', '--log-interval', '1'],
      ...['--threads', '1', '--split', '100,0,0'],
    ];
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  async function train(run: string, options: RunOptions = {}) {
    const { flags = [], numProcesses = 1, cache = 'cache', isRefused = false } = options;
    const metrics = join(directory, `${run}.jsonl`);
    const { code, output } = await runRanks({
      numProcesses,
      flags: [...recipe, ...flags, '--save', join(directory, run), '--metrics-jsonl', metrics],
      directory,
      variables: {
        XDG_CACHE_HOME: join(directory, cache),
        // times of the emulation in ms: the second of three candidates is the fastest, and sums in another
        // order
        MTL_EMULATION_MATMUL_MS: '3,1,2',
      },
    });
    expect(code, output).toBe(isRefused ? 2 : 0);
    const steps = isRefused ? [] : readMetrics(metrics);
    return {
      output,
      peaks: steps.map(({ peak_bytes }) => peak_bytes),
      numbers: steps.map(({ lm_loss, grad_norm }) => [lm_loss, grad_norm]),
    };
  }

  /** Returns the single file of choices in a cache directory, with its lines sorted. */
  function fileIn(cache: string): { readonly path: string; readonly lines: readonly string[] } {
    const folder = join(directory, cache, 'mtl/matmuls');
    const names = readdirSync(folder);
    expect(names).toHaveLength(1);
    const path = join(folder, names[0]!);
    return { path, lines: readFileSync(path, 'utf8').split('\n').sort() };
  }

  it('chooses once, and every later run has the same bits and the memory of a run without it', async () => {
    const plain = await train('plain');
    const first = await train('first', { flags: timed });
    expect(first.output).toMatch(/algorithms of matmuls: \d+ chosen by time, kept in/);
    const second = await train('second', { flags: timed });
    expect(second.output).toContain('algorithms of matmuls: as chosen before');
    expect(second.numbers).toEqual(first.numbers);
    expect(first.peaks).toEqual(plain.peaks);
    expect(second.peaks).toEqual(plain.peaks);
    first.numbers.forEach(([loss], step) => {
      expect(Math.abs(loss! / plain.numbers[step]![0]! - 1)).toBeLessThan(bounds.loss);
    });
    // on a GPU the first candidates may be the fastest
    if (isEmulated) expect(first.numbers).not.toEqual(plain.numbers);
    // graphs are recorded afterwards, with the same algorithms
    const graphed = await train('graphed', { flags: [...timed, '--cuda-graphs'] });
    expect(graphed.numbers).toEqual(first.numbers);
  });

  it('chooses on the first rank for the matmuls of all stages', async () => {
    const alone = await train('alone', { flags: timed, cache: 'alone' });
    const together = await train('pipeline', { ...layouts['pp 2'], cache: 'pipeline' });
    // stages split the layers: together they run the same matmuls as one process, so the first loss has the
    // same bits. Gradients of the tied embedding and their norm are sums over stages, in another order.
    expect(together.numbers[0]![0]).toBe(alone.numbers[0]![0]);
    expect(Math.abs(together.numbers[1]![0]! / alone.numbers[1]![0]! - 1)).toBeLessThan(bounds.loss);
    expect(fileIn('pipeline').lines).toEqual(fileIn('alone').lines);
  });

  it.each(Object.entries(layouts))('chooses once for all ranks: %s', async (name, layout) => {
    const cache = name;
    const plain = await train(`${name}-plain`, { ...layout, flags: without(layout.flags) });
    const first = await train(`${name}-first`, { ...layout, cache });
    expect(first.output.match(/algorithms of matmuls: \d+ chosen by time/g)).toHaveLength(1);
    const { path, lines } = fileIn(cache);
    const written = statSync(path).mtimeMs;
    const second = await train(`${name}-second`, { ...layout, cache });
    expect(second.output.match(/algorithms of matmuls/g)).toHaveLength(1);
    expect(second.output).toContain('algorithms of matmuls: as chosen before');
    expect(second.numbers).toEqual(first.numbers);
    const difference = name.startsWith('pp') ? messageBytes : 0;
    for (const [step, peak] of plain.peaks.entries()) {
      expect(Math.abs(first.peaks[step]! - peak!)).toBeLessThanOrEqual(difference);
    }
    expect(fileIn(cache).lines).toEqual(lines);
    expect(statSync(path).mtimeMs).toBe(written);
    if (isEmulated) expect(first.numbers).not.toEqual(plain.numbers);
  });

  it('refuses a damaged file before the first step on all ranks, and chooses again without it', async () => {
    const written = await train('writes', { flags: timed, cache: 'damaged' });
    const { path, lines } = fileIn('damaged');
    writeFileSync(path, readFileSync(path, 'utf8').replace('"algorithm":"', '"algorithm":"1'));
    const { output } = await train('reads', { ...layouts['pp 2'], cache: 'damaged', isRefused: true });
    expect(output).toContain('error[MTL_MATMUL_CHOICES]');
    expect(output).toContain('line 1 is damaged');
    expect(output).toContain(`rm ${path}`);
    rmSync(path);
    const again = await train('again', { flags: timed, cache: 'damaged' });
    expect(again.output).toContain('chosen by time, kept in');
    // under emulation the same candidates are the fastest again
    if (!isEmulated) return;
    expect(fileIn('damaged').lines).toEqual(lines);
    expect(again.numbers).toEqual(written.numbers);
  });
});
