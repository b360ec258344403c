import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Checkpoint, hostTensor, saveCheckpoint } from '@mtl/checkpoint';
import { flagsOfOptions, type RunOptions } from '@mtl/configuration';
import { withLoadedFlags } from '@mtl/configuration/internal';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { isAdapter, readHuggingFaceGpt, readLoraConfiguration, readMegatron } from '@mtl/formats';
import { scoreTokens } from '@mtl/inference';
import { countElements } from '@mtl/kernels';
import { gptParameters } from '@mtl/models';
import { isOptimizerTensor } from '@mtl/trainer';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkpointToLora } from '../src/saved/adapters/checkpoint-to-lora.js';
import { mergeLora } from '../src/saved/adapters/merge-lora.js';
import { savedWeights } from '../src/saved/checkpoints/saved-weights.js';
import { checkpointToHuggingFace, checkpointToMegatron } from '../src/saved/conversion/from-checkpoint.js';
import { loadGptForInference } from '../src/saved/inference/load-gpt-for-inference.js';
import { type OpenGptWeightsOptions, openGptWeights } from '../src/saved/inference/open-gpt-weights.js';
import { readLoadedFlags } from '../src/saved/read-loaded-flags.js';
import { listNumbers, TrainingRuns, tolerances } from './support/training-runs.js';
import { takenFromDirectory, writeTinyLlama } from './support/write-tiny-llama.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-lora-'));
const locate = (name: string): string => join(directory, name);
const base = locate('base');
const onNotice = (): void => {};

const adapters: RunOptions = {
  lora: {
    rank: 4,
    alpha: 8,
    dropout: 0.2,
    targets: ['q_proj', 'v_proj', 'o_proj', 'gate_proj', 'down_proj'],
  },
};
const loadBase: RunOptions = { checkpoint: { loadHuggingFace: base } };

let runs: TrainingRuns;
beforeAll(async () => {
  await writeTinyLlama({ directory: base });
  const recipe: RunOptions = {
    training: { trainIterations: 6, evalInterval: 3 },
    optimizer: { maxLearningRate: 1e-2, learningRateDecayIterations: 6 },
  };
  runs = await TrainingRuns.create(recipe);
  const options = mergeOptions(takenFromDirectory, loadBase, adapters, {
    checkpoint: { saveLora: locate('saved'), saveHuggingFace: locate('merged') },
  });
  await runs.run(1, [{ name: 'alone', options }]);
});
afterAll(() => {
  runs.remove();
  rmSync(directory, { recursive: true });
});

const openCheckpoint = (name: string, iteration: number): Promise<Checkpoint> =>
  Checkpoint.open(join(runs.locate(name), `iter_${String(iteration).padStart(7, '0')}`));

it('trains adapters alone: the base keeps its bits, and nothing of it is in the optimizer', async () => {
  const losses = listNumbers(runs.readMetrics('alone')).map(([loss]) => loss!);
  expect(losses[0]! - losses.at(-1)!).toBeGreaterThan(0.1);
  const checkpoint = await openCheckpoint('alone', 6);
  const names = [...checkpoint.tensors.keys()];
  const states = names.filter(isOptimizerTensor);
  // two layers, five linear layers, two factors, two moments
  expect([states.length, states.every(isAdapter)]).toEqual([2 * 5 * 2 * 2, true]);
  const original = await readHuggingFaceGpt({ directory: base });
  const kept = savedWeights(checkpoint).filter(({ name }) => !isAdapter(name));
  expect(kept.length).toBeGreaterThan(10);
  for (const tensor of kept) {
    const { name, dtype, globalShape } = tensor;
    const memory = new Uint8Array(4 * countElements(globalShape));
    await original.load([hostTensor({ name, dtype, globalShape, memory })]);
    expect(Buffer.compare(await tensor.read(), memory), name).toBe(0);
  }
});

describe('layouts', () => {
  const tensor: RunOptions = { layout: { tensorModelParallelSize: 2 } };
  const layouts = {
    'tp 2': tensor,
    'tp 2, sequence parallel': mergeOptions(tensor, { layout: { sequenceParallel: true } }),
    'pp 2, zb-h1': { layout: { pipelineModelParallelSize: 2, pipelineSchedule: 'zb-h1' } },
    'dp 2, distributed optimizer': { layout: { useDistributedOptimizer: true, overlapGradReduce: true } },
  };

  it('have the curve of one process, dropout included', { tags: ['whole'] }, async () => {
    const trainings = Object.entries(layouts).map(([name, layout]) => ({
      name,
      options: mergeOptions(takenFromDirectory, loadBase, adapters, layout),
    }));
    await runs.run(2, trainings);
    for (const name of Object.keys(layouts)) runs.expectSame(name, 'alone');
  });

  it('resume to the bit, and one from the checkpoint of another', async () => {
    const from = (name: string) =>
      mergeOptions(takenFromDirectory, { checkpoint: { load: runs.locate(name) } });
    const begin = mergeOptions(takenFromDirectory, loadBase, adapters, { training: { exitInterval: 3 } });
    await runs.run(1, [
      { name: 'resumed', options: begin },
      { name: 'resumed', options: from('resumed') },
    ]);
    expect(listNumbers(runs.readMetrics('resumed'))).toEqual(listNumbers(runs.readMetrics('alone')));
    const sharded = mergeOptions(tensor, { layout: { sequenceParallel: true } });
    await runs.run(2, [{ name: 'moved', options: mergeOptions(begin, sharded) }]);
    await runs.run(1, [{ name: 'moved', options: from('moved') }]);
    const { loss, norm } = runs.differences('moved', 'alone');
    expect(loss).toBeLessThan(tolerances.fp32.loss);
    expect(norm).toBeLessThan(tolerances.fp32.norm);
  });
});

describe('what is saved', () => {
  const computeScores = async (weights: Omit<OpenGptWeightsOptions, 'onNotice'>): Promise<number[]> => {
    const loaded = await loadGptForInference({ ...weights, device: 'cpu', onNotice });
    const tokens = loaded.tokenizer!.encode('Line 7 says 433 and ends.');
    const scores = scoreTokens({ model: loaded.model, tokens });
    loaded.dispose();
    return [...scores];
  };

  it('scores alike from the checkpoint and merged, at the end of the run and later', async () => {
    const [original, ofCheckpoint, merged] = [
      await computeScores({ loadHuggingFace: base }),
      await computeScores({ load: runs.locate('alone') }),
      await computeScores({ loadHuggingFace: locate('merged') }),
    ];
    // all three merge in float32 in the same way
    expect(ofCheckpoint).toEqual(merged);
    expect(ofCheckpoint).not.toEqual(original);
    const [fromCheckpoint, later] = [locate('from checkpoint'), locate('merged later')];
    await checkpointToLora({ load: runs.locate('alone'), directory: fromCheckpoint, onNotice });
    await mergeLora({ loadHuggingFace: base, loadLora: fromCheckpoint, directory: later, onNotice });
    expect(await computeScores({ loadHuggingFace: later })).toEqual(merged);
    expect(await computeScores({ loadHuggingFace: base, loadLora: fromCheckpoint })).toEqual(merged);
    await expect(
      computeScores({ load: runs.locate('alone'), loadLora: fromCheckpoint }),
    ).rejects.toMatchObject({
      code: 'MTL_FLAG_CONFLICT',
    });
    for (const written of [fromCheckpoint, locate('saved')]) {
      expect(await readLoraConfiguration(written)).toMatchObject({ rank: 4, alpha: 8, dropout: 0.2 });
    }
  });

  it('goes to Megatron-LM merged', async () => {
    const theirs = locate('megatron');
    await checkpointToMegatron({ load: runs.locate('alone'), directory: theirs, onNotice });
    const written = await readMegatron({ directory: theirs });
    const merged = await readHuggingFaceGpt({ directory: locate('merged') });
    for (const { name, globalShape } of gptParameters(merged.configuration)) {
      const [one, other] = [written, merged].map(() => new Uint8Array(4 * countElements(globalShape)));
      await written.load([hostTensor({ name, globalShape, dtype: 'F32', memory: one! })]);
      await merged.load([hostTensor({ name, globalShape, dtype: 'F32', memory: other! })]);
      expect(Buffer.compare(one!, other!), name).toBe(0);
    }
    await written.close();
  });

  it.each(['decoder.layers.1.mlp.linear_fc2.lora_b.weight', 'decoder.final_layernorm.weight'])(
    'is refused without %s',
    async (missing) => {
      const checkpoint = await openCheckpoint('alone', 6);
      const [load, target] = [locate(`without ${missing}`), locate('never written')];
      const tensors = savedWeights(checkpoint).filter(({ name }) => name !== missing);
      await saveCheckpoint({ directory: load, iteration: 6, tensors, state: checkpoint.state });
      const read = async (): Promise<void> => (await openGptWeights({ load, onNotice })).load([]);
      for (const use of [checkpointToMegatron, checkpointToHuggingFace, checkpointToLora, read]) {
        await expect(use({ load, directory: target, onNotice })).rejects.toMatchObject({
          code: 'MTL_CHECKPOINT_MISMATCH',
          message: `${load}/iter_0000006 has no ${missing}`,
          exitCode: 2,
        });
      }
      expect(existsSync(target)).toBe(false);
    },
  );

  it('is trained on from its directory: adapters begin where they ended', async () => {
    const once: RunOptions = { training: { trainIterations: 1 }, lora: { dropout: 0 } };
    const on = mergeOptions(loadBase, { checkpoint: { loadLora: locate('saved') } }, once);
    const whole: RunOptions = {
      checkpoint: { loadHuggingFace: locate('merged') },
      training: { trainIterations: 1 },
    };
    await runs.run(1, [
      { name: 'on', options: mergeOptions(takenFromDirectory, on) },
      { name: 'whole', options: mergeOptions(takenFromDirectory, whole) },
    ]);
    const [[loss], [merged]] = [
      listNumbers(runs.readMetrics('on')),
      listNumbers(runs.readMetrics('whole')),
    ].map((lines) => lines[0]!) as [number[], number[]];
    // rounding of float32: merged weights against weights and adapters computed separately
    expect(Math.abs(loss! / merged! - 1)).toBeLessThan(tolerances.fp32.loss);
  });

  it('gives a run its flags, which others contradict', async () => {
    const resolveFlags = async (options: RunOptions) => {
      const flags = flagsOfOptions(mergeOptions(loadBase, options));
      return withLoadedFlags(flags, await readLoadedFlags(flags)).values;
    };
    expect(
      await resolveFlags({ checkpoint: { loadLora: locate('saved') }, lora: { dropout: 0 } }),
    ).toMatchObject({
      'lora-rank': 4,
      'lora-alpha': 8,
      'use-rslora': false,
      'lora-dropout': 0,
      'lora-targets': [
        ...['mlp.down_proj', 'mlp.gate_proj'],
        ...['self_attn.o_proj', 'self_attn.q_proj', 'self_attn.v_proj'],
      ],
    });
    await expect(
      resolveFlags({ checkpoint: { loadLora: locate('saved') }, lora: { rank: 2 } }),
    ).rejects.toMatchObject({
      code: 'MTL_FLAG_CONFLICT',
      message: expect.stringContaining('--lora-rank 2 contradicts'),
    });
    await expect(resolveFlags({ checkpoint: { loadLora: base } })).rejects.toMatchObject({
      code: 'MTL_LORA_DIRECTORY',
    });
  });

  it('is not lost', async () => {
    const options: RunOptions = {
      checkpoint: { load: runs.locate('alone'), finetune: true },
      training: { trainIterations: 1 },
    };
    await expect(
      runs.run(1, [{ name: 'refused', options: mergeOptions(takenFromDirectory, options) }]),
    ).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_LORA',
    });
  });
});
