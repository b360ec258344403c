import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runInMemoryRanks } from '@mtl/comm/testing';
import { buildGpt, type LanguageModelResult, smallGpt, useLanguageModel } from '@mtl/models/testing';
import { rankThreads } from '@mtl/tooling/typescript-threads';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parameterTensors, writeHuggingFaceGpt } from '../../src/index.js';

let folder: string;
let original: string;
let whole: LanguageModelResult;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tensor-parallel-'));
  original = join(folder, 'original');
  const built = buildGpt({});
  whole = useLanguageModel(built.stage);
  await writeHuggingFaceGpt({
    directory: original,
    model: smallGpt,
    tensors: parameterTensors(built.stage.parameters),
  });
  built.dispose();
});

afterAll(() => rm(folder, { recursive: true }));

describe.each([
  [2, false],
  [2, true],
  [4, false],
])('a language model on %i tensor-parallel ranks, sequence parallelism %s', (size, sequenceParallel) => {
  let ranks: LanguageModelResult[];
  const saved = (): string => join(folder, `saved-${size}-${sequenceParallel}`);

  beforeAll(async () => {
    ranks = await runInMemoryRanks<LanguageModelResult>({
      worldSize: size,
      ...rankThreads(new URL('./ranks/sharded-language-model.ts', import.meta.url)),
      argument: { sequenceParallel, load: original, save: saved() },
      timeoutMs: 60_000,
    });
  });

  it('chooses the same tokens on every rank, from the same bits, and as one process', () => {
    for (const rank of ranks) {
      expect(rank).toEqual(ranks[0]);
      expect(rank.tokens).toEqual(whole.tokens);
    }
  });

  it('gives the logits and losses of one process', () => {
    const largest = (a: Float32Array, b: Float32Array): number =>
      a.reduce((most, value, index) => Math.max(most, Math.abs(value - b[index]!)), 0);
    whole.logits.forEach((logits, call) => {
      expect(ranks[0]!.logits[call]!.length).toBe(logits.length);
      // float32 rounding of logits around 5, summed in another order
      expect(largest(ranks[0]!.logits[call]!, logits)).toBeLessThan(1e-5);
    });
    expect(largest(ranks[0]!.losses, whole.losses)).toBeLessThan(1e-5);
  });

  it('loads and saves its slices of a Hugging Face model bit for bit', async () => {
    for (const file of ['model.safetensors', 'config.json']) {
      expect(await readFile(join(saved(), file))).toEqual(await readFile(join(original, file)));
    }
  });
});
