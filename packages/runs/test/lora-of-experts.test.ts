import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Checkpoint, hostTensor } from '@mtl/checkpoint';
import { flagsOfOptions, type RunOptions } from '@mtl/configuration';
import { withLoadedFlags } from '@mtl/configuration/internal';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { isAdapter, readHuggingFaceGpt, readLoraConfiguration, readLoraDirectory } from '@mtl/formats';
import { scoreTokens } from '@mtl/inference';
import { countElements } from '@mtl/kernels';
import { inWholeRuns } from '@mtl/tooling/in-whole-runs';
import { isOptimizerTensor } from '@mtl/trainer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkpointToLora } from '../src/saved/adapters/checkpoint-to-lora.js';
import { mergeLora } from '../src/saved/adapters/merge-lora.js';
import { savedWeights } from '../src/saved/checkpoints/saved-weights.js';
import { loadGptForInference } from '../src/saved/inference/load-gpt-for-inference.js';
import type { OpenGptWeightsOptions } from '../src/saved/inference/open-gpt-weights.js';
import { readLoadedFlags } from '../src/saved/read-loaded-flags.js';
import type { TrainGptResult } from './ranks/train-gpt.js';
import { listNumbers, TrainingRuns, tolerances } from './support/training-runs.js';
import { takenFromDirectory, writeTinyLlama } from './support/write-tiny-llama.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-lora-of-experts-'));
const locate = (name: string): string => join(directory, name);
const base = locate('base');
const onNotice = (): void => {};

const targets = [
  'q_proj',
  ...['experts.gate_up_proj', 'experts.down_proj'],
  ...['shared_expert.gate_proj', 'shared_expert.down_proj'],
];
const adapters: RunOptions = { lora: { rank: 3, alpha: 6, targets } };
const begin = mergeOptions(takenFromDirectory, { checkpoint: { loadHuggingFace: base } }, adapters);
/** A run that stops after its first evaluation. */
const half: RunOptions = { training: { exitInterval: 3 } };
const sharded: RunOptions = { layout: { useDistributedOptimizer: true, overlapGradReduce: true } };
const spread = mergeOptions(sharded, { layout: { expertModelParallelSize: 2 } });
const tensor: RunOptions = { layout: { tensorModelParallelSize: 2, sequenceParallel: true } };

let runs: TrainingRuns;
let output: string;
beforeAll(async () => {
  // the base model: a Qwen2-MoE whose first layer is dense
  await writeTinyLlama({
    directory: base,
    changes: {
      kvChannels: 6,
      addQkvBias: true,
      numExperts: 4,
      moeLayerFreq: [0, 1],
      moeRouterTopk: 2,
      moeRouterPreSoftmax: true,
      moeFfnHiddenSize: 20,
      moeSharedExpertIntermediateSize: 16,
      moeSharedExpertGate: true,
    },
  });
  runs = await TrainingRuns.create({
    training: { trainIterations: 6, evalInterval: 3 },
    optimizer: { maxLearningRate: 3e-2, learningRateDecayIterations: 6 },
  });
  await runs.run(1, [{ name: 'alone', options: begin }]);
  const exports = { checkpoint: { saveLora: locate('saved'), saveHuggingFace: locate('merged') } };
  const saving = mergeOptions(begin, spread, exports);
  const [[first]] = (await runs.run(2, [{ name: 'spread', options: saving }])) as [TrainGptResult[]];
  output = first!.output;
});
afterAll(() => {
  runs.remove();
  rmSync(directory, { recursive: true });
});

const openCheckpoint = (name: string): Promise<Checkpoint> =>
  Checkpoint.open(join(runs.locate(name), 'iter_0000006'));

function expectSameCurve(name: string, { stopped = false } = {}): void {
  const { loss, norm } = runs.differences(name, 'alone', { stopped });
  expect(loss, name).toBeLessThan(tolerances.fp32.loss);
  expect(norm, name).toBeLessThan(tolerances.fp32.norm);
}

it('trains adapters of experts alone: the base keeps its bits, and nothing of it is in the optimizer', async () => {
  const losses = listNumbers(runs.readMetrics('alone')).map(([loss]) => loss!);
  expect(losses[0]! - losses.at(-1)!).toBeGreaterThan(0.1);
  // queries of two layers; of one layer two matrices of four experts, and two of the shared one; rank 3
  const numAdapted = 3 * (2 * (24 + 24) + 4 * (24 + 40 + (20 + 24)) + (24 + 16) + (16 + 24));
  expect(output).toContain(`adapters of ${numAdapted.toLocaleString('en-US')} parameters are trained`);
  const checkpoint = await openCheckpoint('spread');
  const states = [...checkpoint.tensors.keys()].filter(isOptimizerTensor);
  // two layers with queries, and one with four others; two factors, two moments
  expect([states.length, states.every(isAdapter)]).toEqual([(2 + 4) * 2 * 2, true]);
  const original = await readHuggingFaceGpt({ directory: base });
  const kept = savedWeights(checkpoint).filter(({ name }) => !isAdapter(name));
  expect(kept.map(({ name }) => name)).toContain('decoder.layers.1.mlp.experts.linear_fc1.weight');
  for (const tensor of kept) {
    const { name, dtype, globalShape } = tensor;
    const memory = new Uint8Array(4 * countElements(globalShape));
    await original.load([hostTensor({ name, dtype, globalShape, memory })]);
    expect(Buffer.compare(await tensor.read(), memory), name).toBe(0);
  }
});

it('moves every adapter of every expert from where it began', async () => {
  const checkpoint = await openCheckpoint('spread');
  const factors = savedWeights(checkpoint).filter(({ name }) => name.endsWith('.lora_b.weight'));
  expect(factors).toHaveLength(6);
  for (const tensor of factors) {
    const values = new Float32Array((await tensor.read()).slice().buffer);
    const parts = tensor.name.includes('.experts.') ? 4 : 1;
    const size = values.length / parts;
    const moved = Array.from({ length: parts }, (_, part) =>
      values.subarray(part * size, (part + 1) * size).some((value) => value !== 0),
    );
    expect(moved, tensor.name).toEqual(moved.map(() => true));
  }
});

describe('layouts', () => {
  const two: Readonly<Record<string, RunOptions>> = {
    // experts over its ranks are in the run `spread`
    ...Object.fromEntries(inWholeRuns<[string, RunOptions][]>(['dp 2, distributed optimizer', sharded])),
    'tp 2, sequence parallel': tensor,
    'pp 2, zb-h1': { layout: { pipelineModelParallelSize: 2, pipelineSchedule: 'zb-h1' } },
  };

  it('have the curve of one process', async () => {
    const trainings = Object.entries(two).map(([name, layout]) => ({
      name,
      options: mergeOptions(begin, layout, half),
    }));
    await runs.run(2, trainings);
    expectSameCurve('spread');
    for (const name of Object.keys(two)) {
      expect(runs.readMetrics(name)).toHaveLength(3);
      expectSameCurve(name, { stopped: true });
    }
  });

  it('may have stages without adapters', async () => {
    const experts = mergeOptions(begin, half, { lora: { targets: ['mlp.experts.down_proj'] } });
    await runs.run(1, [{ name: 'experts alone', options: experts }]);
    for (const pipelineSchedule of ['1f1b', 'zb-h1']) {
      const layout = { pipelineModelParallelSize: 2, pipelineSchedule };
      await runs.run(2, [{ name: pipelineSchedule, options: mergeOptions(experts, { layout }) }]);
      expect(runs.readMetrics(pipelineSchedule)).toHaveLength(3);
      const { loss, norm } = runs.differences(pipelineSchedule, 'experts alone');
      expect(loss).toBeLessThan(tolerances.fp32.loss);
      expect(norm).toBeLessThan(tolerances.fp32.norm);
    }
  });

  it('have it with other layouts of experts, and on four ranks', { tags: ['whole'] }, async () => {
    const pairs: Readonly<Record<string, RunOptions>> = {
      'tp 2, ep 2': mergeOptions(tensor, {
        layout: { expertTensorParallelSize: 1, expertModelParallelSize: 2 },
      }),
      'ep 2, tokens by all-gather, recomputed': mergeOptions(spread, {
        layout: { moeTokenDispatcherType: 'allgather' },
        training: { recomputeGranularity: 'selective', recomputeModules: ['moe', 'shared_experts'] },
      }),
    };
    const four = {
      'tp 2, ep 2, etp 2': mergeOptions(spread, tensor),
      'dp 4, ep 2': spread,
    };
    for (const [size, layouts] of [
      [2, pairs],
      [4, four],
    ] as const) {
      const options = Object.entries(layouts).map(([name, layout]) => ({
        name,
        options: mergeOptions(begin, layout),
      }));
      await runs.run(size, options);
      for (const name of Object.keys(layouts)) expectSameCurve(name);
    }
  });

  it('resume to the bit, and one from the checkpoint of another', async () => {
    const load = (name: string) =>
      mergeOptions(takenFromDirectory, { checkpoint: { load: runs.locate(name) } });
    await runs.run(2, [{ name: 'resumed', options: mergeOptions(begin, spread, half) }]);
    for (const file of ['', '.jsonl'])
      cpSync(runs.locate(`resumed${file}`), runs.locate(`moved${file}`), { recursive: true });
    await runs.run(2, [{ name: 'resumed', options: mergeOptions(load('resumed'), spread) }]);
    await runs.run(1, [{ name: 'moved', options: load('moved') }]);
    expect(listNumbers(runs.readMetrics('resumed'))).toEqual(listNumbers(runs.readMetrics('spread')));
    expectSameCurve('moved');
  });
});

describe('what is saved of ranks with different experts', () => {
  const computeScores = async (weights: Omit<OpenGptWeightsOptions, 'onNotice'>): Promise<number[]> => {
    const loaded = await loadGptForInference({ ...weights, device: 'cpu', onNotice });
    const tokens = loaded.tokenizer!.encode('Line 7 says 433 and ends.');
    const scores = scoreTokens({ model: loaded.model, tokens });
    loaded.dispose();
    return [...scores];
  };

  it('is what PEFT names parameters and layers', async () => {
    const config = JSON.parse(readFileSync(join(locate('saved'), 'adapter_config.json'), 'utf8'));
    expect(config).toMatchObject({
      r: 3,
      lora_alpha: 6,
      lora_dropout: 0,
      target_modules: ['q_proj', 'mlp.shared_expert.gate_proj', 'mlp.shared_expert.down_proj'],
      target_parameters: ['mlp.experts.gate_up_proj', 'mlp.experts.down_proj'],
    });
    const { targets: found } = await readLoraConfiguration(locate('saved'));
    expect(found).toEqual(
      [
        ...['mlp.experts.down_proj', 'mlp.experts.gate_up_proj'],
        ...['mlp.shared_expert.down_proj', 'mlp.shared_expert.gate_proj', 'self_attn.q_proj'],
      ].sort(),
    );
  });

  it('holds the bits of the checkpoint, and is merged and scored alike from everywhere', async () => {
    const checkpoint = await openCheckpoint('spread');
    const { configuration: model } = await readHuggingFaceGpt({ directory: base });
    const written = await readLoraDirectory({ directory: locate('saved'), model });
    for (const tensor of savedWeights(checkpoint).filter(({ name }) => isAdapter(name))) {
      const { name, globalShape } = tensor;
      const memory = new Uint8Array(4 * countElements(globalShape));
      await written.load([hostTensor({ name, dtype: 'F32', globalShape, memory })]);
      expect(Buffer.compare(await tensor.read(), memory), name).toBe(0);
    }
    const [original, merged] = [
      await computeScores({ loadHuggingFace: base }),
      await computeScores({ loadHuggingFace: locate('merged') }),
    ];
    expect(merged).not.toEqual(original);
    // all commands merge in float32 in the same way
    expect(await computeScores({ load: runs.locate('spread') })).toEqual(merged);
    const [fromCheckpoint, later] = [locate('from checkpoint'), locate('merged later')];
    await checkpointToLora({ load: runs.locate('spread'), directory: fromCheckpoint, onNotice });
    await mergeLora({ loadHuggingFace: base, loadLora: fromCheckpoint, directory: later, onNotice });
    expect(await computeScores({ loadHuggingFace: later })).toEqual(merged);
    expect(await computeScores({ loadHuggingFace: base, loadLora: fromCheckpoint })).toEqual(merged);
  });

  it('is trained on from its directory: adapters begin where they ended', async () => {
    const once: RunOptions = { training: { trainIterations: 1 } };
    const from = (options: RunOptions) => mergeOptions(takenFromDirectory, options, once);
    const on = from({ checkpoint: { loadHuggingFace: base, loadLora: locate('saved') } });
    await runs.run(2, [{ name: 'on', options: mergeOptions(on, spread) }]);
    await runs.run(1, [
      { name: 'whole', options: from({ checkpoint: { loadHuggingFace: locate('merged') } }) },
    ]);
    const [[loss], [merged]] = ['on', 'whole'].map((name) => listNumbers(runs.readMetrics(name))[0]!) as [
      number[],
      number[],
    ];
    // rounding of float32: merged weights against weights and adapters computed separately
    expect(Math.abs(loss! / merged! - 1)).toBeLessThan(tolerances.fp32.loss);
  });

  it('gives a run its flags', async () => {
    const flags = flagsOfOptions({ checkpoint: { loadHuggingFace: base, loadLora: locate('saved') } });
    const { values } = withLoadedFlags(flags, await readLoadedFlags(flags));
    expect(values).toMatchObject({ 'lora-rank': 3, 'lora-alpha': 6, 'lora-dropout': 0 });
    expect(values['lora-targets']).toContain('mlp.experts.gate_up_proj');
  });
});
