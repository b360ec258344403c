import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SafetensorsDirectory } from '@mtl/checkpoint';
import type { RunOptions } from '@mtl/configuration';
import { mergeOptions } from '@mtl/configuration/testing/merge-options';
import { generateAll, scoreTokens } from '@mtl/inference';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkpointToHuggingFace } from '../src/saved/conversion/from-checkpoint.js';
import { huggingFaceToCheckpoint } from '../src/saved/conversion/to-checkpoint.js';
import { loadGptForInference } from '../src/saved/inference/load-gpt-for-inference.js';
import {
  listNumbers,
  printedTwice,
  TrainingRuns,
  tolerances,
  validationDifference,
} from './support/training-runs.js';
import { takenFromDirectory, writeTinyLlama } from './support/write-tiny-llama.js';

/** The settings in a directory of transformers that our computation does not use. */
const own = { pad_token_id: 3, eos_token_id: [256, 5], bos_token_id: 1, my_note: 'kept' };
const generation = { temperature: 0.6, eos_token_id: [256, 5] };
const tokenizerFiles = {
  'chat_template.jinja': "{% for message in messages %}{{ message['content'] }}{% endfor %}",
  'special_tokens_map.json': '{"eos_token":   "<|endoftext|>"}',
  'additional_chat_templates/rag.jinja': 'documents',
  'additional_chat_templates/tool_use.jinja': '{{ tools }}\r\n',
  'tokenizer.model': '\u0000\u0001binary',
  'tokenizer.model.v3': '\u0000\u0003',
  'spiece.model': '\u0000\u0004',
  'sentencepiece.bpe.model': '\u0000\u0005',
  'added_tokens.json': '{}',
};

const directory = mkdtempSync(join(tmpdir(), 'mtl-llama-'));
const original = join(directory, 'original');
const readBytes = (folder: string, name: string): string =>
  readFileSync(join(folder, name)).toString('base64');
const readJson = (folder: string, name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(folder, name), 'utf8')) as Record<string, unknown>;

/** Returns the bytes of all tensors of a directory, by name. */
async function readTensors(folder: string): Promise<Readonly<Record<string, string>>> {
  const weights = await SafetensorsDirectory.open(folder);
  const all: Record<string, string> = {};
  for (const [name, { dtype, shape }] of weights.tensors) {
    const bytes = Buffer.from(await weights.read({ name }));
    all[name] = `${dtype} ${shape} ${bytes.toString('base64')}`;
  }
  await weights.close();
  return all;
}

/** Writes a Mistral with a window and its tokenizer, as bfloat16. */
const writeOriginal = (): Promise<readonly string[]> =>
  writeTinyLlama({
    directory: original,
    changes: { windowSize: '7,0', tieEmbeddings: false, rotaryBase: 1e6 },
    dtype: 'BF16',
    origin: { config: { model_type: 'mistral', ...own }, generation },
    otherFiles: tokenizerFiles,
    maxShardBytes: 20_000,
  });

let runs: TrainingRuns;
let copied: readonly string[];
beforeAll(async () => {
  copied = await writeOriginal();
  const recipe: RunOptions = {
    training: { trainIterations: 6, evalInterval: 3 },
    optimizer: { maxLearningRate: 1e-3, learningRateDecayIterations: 6 },
  };
  runs = await TrainingRuns.create(recipe);
});
afterAll(() => {
  runs.remove();
  rmSync(directory, { recursive: true });
});

it('comes back through a checkpoint: the weights to the bit, and every other file', async () => {
  const checkpoints = join(directory, 'checkpoints');
  await huggingFaceToCheckpoint({ loadHuggingFace: original, directory: checkpoints, onNotice: () => {} });
  const back = join(directory, 'back');
  const options = { load: checkpoints, directory: back, onNotice: () => {} };
  expect(await checkpointToHuggingFace(options)).toMatchObject({ dtype: 'BF16' });
  for (const name of copied) expect(readBytes(back, name), name).toBe(readBytes(original, name));
  expect(readJson(back, 'config.json')).toEqual(readJson(original, 'config.json'));
  expect(readJson(back, 'config.json')).toMatchObject({ model_type: 'mistral', sliding_window: 8, ...own });
  expect(readJson(back, 'generation_config.json')).toEqual(generation);
  expect(await readTensors(back)).toEqual(await readTensors(original));
});

it('is scored and generates with the tokenizer that comes with it', async () => {
  const loaded = await loadGptForInference({
    loadHuggingFace: original,
    device: 'cpu',
    onNotice: () => {},
  });
  const { tokenizer, endTokens } = loaded;
  expect(endTokens).toEqual([256, 5]);
  const tokens = tokenizer!.encode('Line 7 says');
  const scores = scoreTokens({ model: loaded.model, tokens });
  const [sample] = await generateAll({
    model: loaded.model,
    prompts: [[...tokens]],
    maxNewTokens: 4,
    sampling: { temperature: 0 },
    seed: 1,
    stopTokens: [],
  });
  loaded.dispose();
  expect(scores.length).toBe(tokens.length - 1);
  // the loss of an untrained model with 270 tokens is ln 270
  expect(
    Math.abs(-scores.reduce((sum, score) => sum + score, 0) / scores.length - Math.log(270)),
  ).toBeLessThan(1);
  expect(sample!.tokens.length).toBe(4);
});

it('takes another tokenizer in place of one that is refused', async () => {
  const folder = join(directory, 'added');
  cpSync(original, folder, { recursive: true });
  for (const name of ['tokenizer.json', 'tokenizer_config.json', 'special_tokens_map.json'])
    rmSync(join(folder, name));
  writeFileSync(join(folder, 'vocab.json'), '{"a": 0}');
  writeFileSync(join(folder, 'merges.txt'), '#version: 0.2\n');
  writeFileSync(join(folder, 'added_tokens.json'), '{"<new>": 1}');
  const options = { loadHuggingFace: folder, device: 'cpu', onNotice: () => {} } as const;
  await expect(loadGptForInference(options)).rejects.toMatchObject({
    code: 'MTL_DATA_TOKENIZER',
    message: expect.stringContaining('"<new>"') as string,
  });
  using loaded = await loadGptForInference({ ...options, tokenizer: { type: 'ByteLevelTokenizer' } });
  expect(loaded.tokenizer?.name).toBe('ByteLevelTokenizer');
});

describe('training that starts from a directory of transformers', () => {
  const start = mergeOptions(takenFromDirectory, { checkpoint: { loadHuggingFace: original } });
  const layout: RunOptions = { layout: { tensorModelParallelSize: 2, pipelineModelParallelSize: 2 } };

  it('has the losses of one process on two stages of two ranks, and writes the same kind of model', async () => {
    const options = mergeOptions(start, { checkpoint: { saveHuggingFace: join(directory, 'alone-hf') } });
    const alone = (await runs.run(1, [{ name: 'alone', options }]))[0]![0]!;
    const losses = listNumbers(runs.readMetrics('alone')).map(([loss]) => loss!);
    expect(losses[0]! - losses.at(-1)!).toBeGreaterThan(0.3);
    const sharded = mergeOptions(start, layout, {
      layout: { sequenceParallel: true },
      checkpoint: { saveHuggingFace: join(directory, 'sharded-hf') },
    });
    const ranks = (await runs.run(4, [{ name: 'sharded', options: sharded }]))[0]!;
    const { loss, norm } = runs.differences('sharded', 'alone');
    expect(loss).toBeLessThan(tolerances.fp32.loss);
    expect(norm).toBeLessThan(tolerances.fp32.norm);
    expect(validationDifference(ranks[0]!.output, alone.output)).toBeLessThan(
      tolerances.fp32.loss + printedTwice,
    );
    expect(ranks[0]!.sample).toBe(alone.sample);
    for (const name of ['alone-hf', 'sharded-hf']) {
      const written = join(directory, name);
      for (const file of copied) expect(readBytes(written, file), file).toBe(readBytes(original, file));
      const { dtype, torch_dtype, ...others } = readJson(original, 'config.json');
      expect(readJson(written, 'config.json')).toEqual({
        ...others,
        dtype: 'float32',
        torch_dtype: 'float32',
      });
    }
  });

  it('remembers where the model came from when it is trained on', async () => {
    const [moved, last] = [join(directory, 'moved'), join(directory, 'last-hf')];
    cpSync(original, moved, { recursive: true });
    await runs.run(1, [
      {
        name: 'begun',
        options: mergeOptions(start, {
          checkpoint: { loadHuggingFace: moved },
          training: { exitInterval: 2 },
        }),
      },
    ]);
    rmSync(moved, { recursive: true });
    const [begun, tuned] = [runs.locate('begun'), runs.locate('tuned')];
    await runs.run(1, [
      {
        name: 'tuned',
        options: mergeOptions(takenFromDirectory, {
          checkpoint: { load: begun, finetune: true },
          training: { trainIterations: 2 },
        }),
      },
      {
        name: 'on',
        options: mergeOptions(takenFromDirectory, {
          checkpoint: { load: tuned, saveHuggingFace: last },
          training: { trainIterations: 3 },
        }),
      },
    ]);
    for (const name of copied) expect(readBytes(last, name), name).toBe(readBytes(original, name));
    expect(readJson(last, 'config.json')).toMatchObject({ model_type: 'mistral', ...own });
    expect(readJson(last, 'generation_config.json')).toEqual(generation);
  });
});
