import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SafetensorsDirectory } from '@mtl/checkpoint';
import { afterAll, expect, it } from 'vitest';
import {
  checkpointToHuggingFace,
  checkpointToMegatron,
  huggingFaceToCheckpoint,
  megatronToCheckpoint,
} from '../src/index.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-convert-experts-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const at = (name: string): string => join(directory, name);
const fixtures = fileURLToPath(new URL('../../formats/fixtures/', import.meta.url));
const onNotice = (): void => {};

/** Returns the bytes of all tensors of a directory, by name. */
async function readTensors(folder: string): Promise<Readonly<Record<string, string>>> {
  const weights = await SafetensorsDirectory.open(folder);
  const all: Record<string, string> = {};
  for (const [name, { dtype, shape }] of weights.tensors) {
    all[name] = `${dtype} ${shape} ${Buffer.from(await weights.read({ name })).toString('base64')}`;
  }
  await weights.close();
  return all;
}

it.each(['mixtral', 'qwen2-moe', 'qwen3-moe', 'olmoe'])(
  'a %s goes through a checkpoint and comes back, bit for bit',
  async (name) => {
    const original = join(fixtures, `huggingface-${name}`);
    const [checkpoints, back] = [at(`${name}-checkpoints`), at(`${name}-back`)];
    await huggingFaceToCheckpoint({ loadHuggingFace: original, directory: checkpoints, onNotice });
    await checkpointToHuggingFace({ load: checkpoints, directory: back, onNotice });
    expect(await readTensors(back)).toEqual(await readTensors(original));
    const readType = (folder: string): unknown =>
      (JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as { model_type: string }).model_type;
    expect(readType(back)).toBe(readType(original));
  },
);

it('experts go through checkpoints of Megatron-LM, bit for bit', async () => {
  const [first, second] = [at('from-ranks'), at('from-distributed')];
  await megatronToCheckpoint({
    megatron: join(fixtures, 'megatron/torch-experts-local'),
    directory: first,
    onNotice,
  });
  await checkpointToMegatron({ load: first, directory: at('megatron'), onNotice });
  await megatronToCheckpoint({ megatron: at('megatron'), directory: second, onNotice });
  await checkpointToHuggingFace({ load: second, directory: at('mixtral-again'), dtype: 'F32', onNotice });
  expect(await readTensors(at('mixtral-again'))).toEqual(
    await readTensors(join(fixtures, 'huggingface-mixtral')),
  );
});
