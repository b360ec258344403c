import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { countBytesRead } from '@mtl/checkpoint/testing';
import { type TrainOptions, train } from '@mtl/runs';
import { afterAll, expect, it } from 'vitest';
import { preparedCorpus } from './support/prepared-corpus.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-bytes-of-resuming-'));
afterAll(() => rmSync(directory, { recursive: true }));

const tiny = {
  preset: 'char-10m',
  model: { numLayers: 1, hiddenSize: 128, numAttentionHeads: 2, maxPositionEmbeddings: 16 },
  data: { sequenceLength: 16, split: '1,0,0', ...(await preparedCorpus(directory)).data },
  training: { microBatchSize: 2, globalBatchSize: 2, trainIterations: 10, evalIterations: 0 },
  layout: { threads: 1 },
  logging: { noEvalSamples: true },
} as const satisfies TrainOptions;

async function trainUntil(exitInterval: number, checkpoint: TrainOptions['checkpoint']): Promise<void> {
  const training = { ...tiny.training, exitInterval };
  await using run = await train({ ...tiny, training, checkpoint });
  await run.run();
}

it.each([
  ['continues a run', {}],
  ['begins a run with the weights of another', { finetune: true }],
])('reads every byte of a checkpoint once when it %s', async (_, settings) => {
  const save = join(directory, JSON.stringify(settings));
  await trainUntil(1, { save });
  const checkpoint = join(save, 'iter_0000001');
  const shards = readdirSync(checkpoint).filter((name) => name.endsWith('.safetensors'));
  const sizes = shards.map((name) => statSync(join(checkpoint, name)).size);
  const stored = sizes.reduce((sum, size) => sum + size, 0);
  const count = await countBytesRead(() => trainUntil(2, { load: save, ...settings }), {
    leastBytes: Math.min(...sizes),
  });
  expect(count).toBeGreaterThanOrEqual(stored);
  // headers of shards are read again when the shards are opened for the bytes that this rank does not load
  expect(count).toBeLessThan(stored * 1.05);
});
