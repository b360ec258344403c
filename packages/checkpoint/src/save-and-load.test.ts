import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { findCheckpoint, hostTensor, loadCheckpoint, SafetensorsDirectory, saveCheckpoint } from './index.js';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'mtl-checkpoint-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

it('smoke', async () => {
  const memory = Uint8Array.from({ length: 48 }, (_, index) => index);
  const make = (bytes: Uint8Array) =>
    hostTensor({ name: 'w', dtype: 'F32', globalShape: [3, 4], memory: bytes });
  await saveCheckpoint({ directory, iteration: 5, tensors: [make(memory)], state: { a: 1 } });
  expect(await readdir(directory)).toEqual(['iter_0000005', 'latest_checkpointed_iteration.txt']);
  console.log(await readdir(join(directory, 'iter_0000005')));
  const notices: string[] = [];
  const found = await findCheckpoint({ directory, onNotice: (n) => notices.push(n) });
  if (found.kind !== 'found') throw new Error('none');
  const target = new Uint8Array(48);
  console.log(await loadCheckpoint({ checkpoint: found.checkpoint, tensors: [make(target)] }));
  expect(target).toEqual(memory);
  await using hf = await SafetensorsDirectory.open(found.checkpoint.path);
  expect(await hf.read({ name: 'w' })).toEqual(memory);
});
