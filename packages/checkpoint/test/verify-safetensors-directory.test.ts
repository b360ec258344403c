import { copyFile, readFile, rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  SafetensorsDirectory,
  saveCheckpoint,
  verifySafetensorsDirectory,
  writeSafetensorsDirectory,
} from '../src/index.js';
import { stateOfIteration } from './support/states.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();
const at = (name: string): string => join(temporary.path, name);
const index = 'model.safetensors.index.json';
const nameShard = (number: number): string => `model-0000${number}-of-00003.safetensors`;

interface Index {
  metadata: { total_size?: unknown };
  weight_map: Record<string, string>;
}

/** Writes three shards of one tensor each: two of 16 bytes in float32, one of 8 in bfloat16. */
async function write(value = 1): Promise<void> {
  const floats = (last: number): Uint8Array => new Uint8Array(Float32Array.of(1, 2, 3, last).buffer);
  await writeSafetensorsDirectory({
    directory: temporary.path,
    maxShardBytes: 16,
    tensors: [
      { name: 'a', dtype: 'F32', shape: [2, 2], read: () => floats(4) },
      { name: 'b', dtype: 'F32', shape: [4], read: () => floats(value) },
      { name: 'c', dtype: 'BF16', shape: [4], read: () => new Uint8Array(8) },
    ],
  });
}

async function editIndex(edit: (index: Index) => void): Promise<void> {
  const content = JSON.parse(await readFile(at(index), 'utf8')) as Index;
  edit(content);
  await writeFile(at(index), JSON.stringify(content));
}

const refused = (problem: RegExp) => ({
  code: 'MTL_SAFETENSORS_INDEX',
  message: expect.stringMatching(problem),
});

describe('a directory with an index', () => {
  it('is whole as it was written, with or without total_size', async () => {
    await write();
    expect(await verifySafetensorsDirectory(temporary.path, { requireFinite: true })).toBe(40);
    await editIndex(({ metadata }) => void delete metadata.total_size);
    expect(await verifySafetensorsDirectory(temporary.path)).toBe(40);
  });

  it.for<{ what: string; damage: () => Promise<void>; problem: RegExp }>([
    {
      what: 'a shard is missing',
      damage: () => unlink(at(nameShard(2))),
      problem: /index\.json: model-00002-of-00003\.safetensors, which it names, is missing$/,
    },
    {
      what: 'shards are swapped',
      damage: async () => {
        await rename(at(nameShard(1)), at('other'));
        await rename(at(nameShard(2)), at(nameShard(1)));
        await rename(at('other'), at(nameShard(2)));
      },
      problem: /index\.json: it says that "a" is in model-00001-of-00003\.safetensors, and it is not$/,
    },
    {
      what: 'the index names the wrong shard',
      damage: () => editIndex(({ weight_map: map }) => void Object.assign(map, { c: map.a })),
      problem: /index\.json: it says that "c" is in model-00001-of-00003\.safetensors, and it is not$/,
    },
    {
      what: 'the index leaves a shard out',
      damage: () => editIndex(({ weight_map: map }) => void delete map.a),
      problem: /index\.json: model-00001-of-00003\.safetensors is not in it$/,
    },
    {
      what: 'a model.safetensors would be read instead',
      damage: () => copyFile(at(nameShard(1)), at('model.safetensors')),
      problem: /index\.json: model\.safetensors is not in it$/,
    },
    {
      what: 'its total_size is another',
      damage: () => editIndex(({ metadata }) => void Object.assign(metadata, { total_size: 48 })),
      problem: /index\.json: its total_size is 48$/,
    },
  ])('is refused where $what', async ({ damage, problem }) => {
    await write();
    await damage();
    await expect(verifySafetensorsDirectory(temporary.path)).rejects.toMatchObject(refused(problem));
  });

  it('is refused where a shard holds a tensor that the index does not name', async () => {
    const { path } = await saveCheckpoint({
      directory: temporary.path,
      iteration: 1,
      state: {},
      tensors: stateOfIteration(1),
    });
    await verifySafetensorsDirectory(path);
    const file = join(path, index);
    const content = JSON.parse(await readFile(file, 'utf8')) as Index;
    delete content.weight_map['model.bias'];
    await writeFile(file, JSON.stringify(content));
    await expect(verifySafetensorsDirectory(path)).rejects.toMatchObject(
      refused(/1 tensors of its shards are not in it, such as "model\.bias"$/),
    );
    await using directory = await SafetensorsDirectory.open(path);
    expect(directory.unlisted).toEqual(['model.bias']);
  });

  it('is read for values that are not finite on request', async () => {
    await write(Number.NaN);
    await verifySafetensorsDirectory(temporary.path);
    await expect(verifySafetensorsDirectory(temporary.path, { requireFinite: true })).rejects.toMatchObject({
      code: 'MTL_NOT_FINITE',
      message: expect.stringMatching(/model-00002-of-00003\.safetensors: b\[3\] is NaN$/),
    });
  });
});
