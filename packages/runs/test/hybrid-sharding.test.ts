import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contentOfCheckpoint } from './support/content-of-checkpoint.js';
import { listNumbers, TrainingRuns, tolerances } from './support/training-runs.js';
import { takenFromDirectory, writeTinyLlama } from './support/write-tiny-llama.js';

const numSteps = 12;
const stores = ['optim', 'optim_grads', 'optim_grads_params'] as const;
const store = (dataParallelShardingStrategy: (typeof stores)[number]): RunOptions => ({
  layout: { dataParallelShardingStrategy },
});
/** Four data-parallel ranks: two instances of two ranks. */
const hybrid = (name: (typeof stores)[number]): RunOptions =>
  mergeOptions(store(name), { layout: { numDistributedOptimizerInstances: 2 } });
const overlapped: RunOptions = { layout: { overlapGradReduce: true, overlapParamGather: true } };
const tensor: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };
const context: RunOptions = { layout: { contextParallelSize: 2 } };
const halfWay: RunOptions = { training: { exitInterval: 6 }, checkpoint: { saveInterval: 6 } };
const base = mkdtempSync(join(tmpdir(), 'mtl-base-'));

let runs: TrainingRuns;
beforeAll(async () => {
  // dropout 0.1, and norms that are clipped
  runs = await TrainingRuns.create({ training: { trainIterations: numSteps, evalInterval: 6 } });
});
afterAll(() => {
  runs.remove();
  rmSync(base, { recursive: true });
});

const openContent = (name: string): Promise<ReadonlyMap<string, string>> =>
  contentOfCheckpoint(join(runs.locate(name), 'iter_0000012'));

describe('a GPT with dropout on two instances of two ranks', () => {
  beforeAll(async () => {
    await runs.run(1, [
      { name: 'alone', options: halfWay },
      { name: 'alone', options: { checkpoint: { load: runs.locate('alone') } } },
    ]);
    await runs.run(4, [
      ...stores.flatMap((name) => [
        { name, options: hybrid(name) },
        { name: `half-${name}`, options: mergeOptions(hybrid(name), halfWay) },
        {
          name: `half-${name}`,
          options: mergeOptions(hybrid(name), { checkpoint: { load: runs.locate(`half-${name}`) } }),
        },
      ]),
      { name: 'overlapped', options: mergeOptions(hybrid('optim'), overlapped) },
      { name: 'tensor', options: mergeOptions(hybrid('optim'), tensor) },
      { name: 'context', options: mergeOptions(hybrid('optim_grads_params'), context) },
    ]);
  });

  it.each([...stores, 'tensor', 'context'])('learns as one process does: %s', (name) => {
    runs.expectSame(name, 'alone');
  });

  it('has the same bits with overlapped communication', () => {
    expect(listNumbers(runs.readMetrics('overlapped'))).toEqual(listNumbers(runs.readMetrics('optim')));
  });

  it.each(stores)('resumes bitwise: %s', async (name) => {
    const [whole, halves] = await Promise.all([name, `half-${name}`].map(openContent));
    expect(listNumbers(runs.readMetrics(`half-${name}`))).toEqual(listNumbers(runs.readMetrics(name)));
    expect(halves).toEqual(whole);
    const alone = await openContent('alone');
    expect([...whole!.keys()].sort()).toEqual([...alone.keys()].sort());
  });

  it.each(stores)('saves the states of the first instance alone: %s', (name) => {
    const files = readdirSync(join(runs.locate(name), 'iter_0000012'));
    expect(files.filter((file) => file.endsWith('.safetensors'))).toHaveLength(2);
  });

  it.each([
    ['half-optim', 'one process', 1, {}],
    ['half-optim_grads', 'slices of two ranks', 2, store('optim_grads_params')],
    ['half-optim_grads_params', 'a distributed optimizer', 4, store('optim')],
    ['half-optim', 'instances of another store', 4, hybrid('optim_grads_params')],
    ['alone', 'instances', 4, hybrid('optim_grads')],
  ] as const)('goes from %s on with %s', async (from, to, numRanks, options) => {
    const name = `${from} to ${to}`.replaceAll(' ', '-');
    const load = { checkpoint: { load: runs.locate(from), checkpointStep: 6 } };
    await runs.run(numRanks, [{ name, options: mergeOptions(options, load) }]);
    const [own, expected] = [name, 'alone'].map((each) => listNumbers(runs.readMetrics(each)).slice(-6));
    expect(own!.length).toBe(6);
    own!.forEach(([loss, norm], step) => {
      expect(Math.abs(loss! / expected![step]![0]! - 1)).toBeLessThan(tolerances.fp32.loss);
      expect(Math.abs(norm! / expected![step]![1]! - 1)).toBeLessThan(tolerances.fp32.norm);
    });
  });
});

describe('other ways to train on two instances', () => {
  const lean: RunOptions = {
    training: { bf16: true },
    optimizer: { usePrecisionAwareOptimizer: true, expAvgDtype: 'bf16', mainGradsDtype: 'bf16' },
  };
  const muon: RunOptions = { optimizer: { optimizer: 'muon' } };
  const experts: RunOptions = {
    model: { numExperts: 4, moeRouterTopk: 2, moeFfnHiddenSize: 32, disableBiasLinear: true },
  };
  const spread: RunOptions = { layout: { expertModelParallelSize: 2 } };

  const modes = { lean, muon, experts };
  const cases = [
    ['lean states in 16 bits', 'lean', hybrid('optim_grads')],
    ['Muon', 'muon', hybrid('optim')],
    ['Muon and sharded parameters', 'muon', hybrid('optim_grads_params')],
    // an instance of experts is one rank
    ['experts on pairs of ranks', 'experts', mergeOptions(hybrid('optim'), spread)],
    ['experts and sharded parameters', 'experts', mergeOptions(hybrid('optim_grads_params'), spread)],
    ['all experts on each rank', 'experts', hybrid('optim_grads')],
  ] as const;

  beforeAll(async () => {
    const alone = Object.entries(modes).map(([mode, options]) => ({ name: `alone-${mode}`, options }));
    await runs.run(1, alone);
    const layouts = cases.map(([name, mode, layout]) => ({
      name: name.replaceAll(' ', '-'),
      options: mergeOptions(modes[mode], layout),
    }));
    await runs.run(4, layouts);
  });

  it.each(cases)('learns as one process does with %s', (name, mode) => {
    runs.expectSame(name.replaceAll(' ', '-'), `alone-${mode}`, mode === 'lean' ? 'bf16' : 'fp32');
  });

  it('trains adapters over frozen parameters that are sharded, and saves the base once', async () => {
    await writeTinyLlama({ directory: base });
    const adapters = mergeOptions(takenFromDirectory, {
      checkpoint: { loadHuggingFace: base },
      lora: { rank: 4, alpha: 8, targets: ['q_proj', 'down_proj'] },
    });
    await runs.run(1, [{ name: 'adapters', options: adapters }]);
    await runs.run(4, [
      { name: 'hybrid-adapters', options: mergeOptions(adapters, hybrid('optim_grads_params')) },
    ]);
    runs.expectSame('hybrid-adapters', 'adapters');
    const [whole, slices] = await Promise.all(['adapters', 'hybrid-adapters'].map(openContent));
    expect([...slices!.keys()].sort()).toEqual([...whole!.keys()].sort());
    for (const [name, content] of whole!) {
      if (/lora|optimizer/.test(name)) continue;
      expect(slices!.get(name), name).toEqual(content);
    }
  });
});
