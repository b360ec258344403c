import { spawnSync } from 'node:child_process';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { encodeManifest, type Manifest } from '../src/checkpoints/manifest.js';
import {
  Checkpoint,
  findCheckpoint,
  SafetensorsDirectory,
  SafetensorsFile,
  saveCheckpoint,
  verifyCheckpoint,
} from '../src/index.js';
import { prepareSaveDirectory } from '../src/internal/index.js';
import { stateOfIteration } from './support/states.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const temporary = temporaryDirectory();
const tracker = 'latest_checkpointed_iteration.txt';
const shard = 'shard-00000-000.safetensors';

/** Puts a FIFO at `path`: opened like a file, it would wait for a writer for ever. */
async function putFifo(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
  expect(spawnSync('mkfifo', [path]).status).toBe(0);
}

async function save(iteration: number): Promise<string> {
  const options = { directory: temporary.path, iteration, state: {}, tensors: stateOfIteration(iteration) };
  return (await saveCheckpoint(options)).path;
}

/** Returns the result, as an iteration, and the notices. */
async function find() {
  const notices: string[] = [];
  const onNotice = (notice: string): void => void notices.push(notice.replaceAll(`${temporary.path}/`, ''));
  const found = await findCheckpoint({ directory: temporary.path, onNotice });
  return { iteration: found.kind === 'found' ? found.checkpoint.iteration : undefined, notices };
}

describe('a FIFO', () => {
  it('in place of a manifest is refused, and skipped for another checkpoint', async () => {
    await save(1);
    const path = await save(2);
    await putFifo(join(path, 'manifest.json'));
    await expect(Checkpoint.open(path)).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_IO',
      message: `${join(path, 'manifest.json')} is a FIFO`,
    });
    const { iteration, notices } = await find();
    expect(iteration).toBe(1);
    expect(notices[0]).toMatch(/^skipped iter_0000002: .*manifest\.json is a FIFO$/);
  });

  it('in place of a shard is refused, and skipped for another checkpoint', async () => {
    await save(1);
    const path = await save(2);
    await putFifo(join(path, shard));
    const checkpoint = await Checkpoint.open(path);
    await expect(verifyCheckpoint(checkpoint)).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_IO' });
    expect((await find()).iteration).toBe(1);
  });

  it('as a path or in a directory of safetensors is refused', async () => {
    const path = join(temporary.path, 'model.safetensors');
    await putFifo(path);
    const refused = { code: 'MTL_CHECKPOINT_IO', message: `${path} is a FIFO` };
    await expect(SafetensorsFile.open(path)).rejects.toMatchObject(refused);
    await expect(SafetensorsDirectory.open(temporary.path)).rejects.toMatchObject(refused);
    await putFifo(join(temporary.path, 'model.safetensors.index.json'));
    await expect(SafetensorsDirectory.open(temporary.path, { prefersIndex: true })).rejects.toMatchObject({
      message: expect.stringContaining('index.json is a FIFO'),
    });
  });

  it('in place of the record of a save does not stop the next one', async () => {
    await save(1);
    await mkdir(join(temporary.path, 'iter_0000002.saving'));
    await putFifo(join(temporary.path, 'iter_0000002.saving', 'saved_by.json'));
    await save(2);
    expect((await find()).iteration).toBe(2);
  });
});

it('a device or a socket as a path is refused', async () => {
  await expect(SafetensorsFile.open('/dev/zero')).rejects.toMatchObject({
    code: 'MTL_CHECKPOINT_IO',
    message: '/dev/zero is a device or a socket',
  });
  const path = join(temporary.path, 'socket');
  const server = createServer();
  await new Promise<void>((listening) => server.listen(path, listening));
  await expect(SafetensorsFile.open(path)).rejects.toMatchObject({
    code: 'MTL_CHECKPOINT_IO',
    exitCode: 2,
    message: `${path} is a device or a socket`,
  });
  await new Promise((closed) => server.close(closed));
});

describe('a tracker', () => {
  it.for([
    { what: 'a directory', put: async (path: string) => void (await mkdir(path)) },
    { what: 'a FIFO', put: putFifo },
    { what: '5000 bytes', put: (path: string) => writeFile(path, '1'.repeat(5000)) },
  ])('that is $what does not hide checkpoints', async ({ what, put }) => {
    await save(1);
    await rm(join(temporary.path, tracker));
    await put(join(temporary.path, tracker));
    const { iteration, notices } = await find();
    expect(iteration).toBe(1);
    const is = what === '5000 bytes' ? 'has 5000 bytes' : `is ${what}`;
    expect(notices).toEqual([`${tracker} ${is}, which cannot be used: using iter_0000001`]);
    await rename(join(temporary.path, 'iter_0000001'), join(temporary.path, 'moved'));
    await expect(find()).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_NONE_WHOLE',
      message: `${temporary.path} has a ${tracker} that ${is}, but no checkpoint`,
    });
  });

  it('that is a directory is refused before a run that saves there', async () => {
    await mkdir(join(temporary.path, tracker));
    await expect(prepareSaveDirectory({ directory: temporary.path, numBytes: 0 })).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_IO',
      exitCode: 2,
      message: `${join(temporary.path, tracker)} is a directory`,
    });
  });
});

describe('a manifest with the right digest', () => {
  /** Writes the manifest of a good checkpoint with some of its content replaced. */
  async function craft(change: (content: Manifest) => object): Promise<string> {
    const path = await save(1);
    const { content } = JSON.parse(await readFile(join(path, 'manifest.json'), 'utf8')) as {
      content: Manifest;
    };
    await writeFile(join(path, 'manifest.json'), encodeManifest(change(content) as Manifest));
    return path;
  }

  it.for<{ what: string; change: (content: Manifest) => object; problem: RegExp }>([
    {
      what: 'a time that is none',
      change: (content) => ({ ...content, savedAtMs: 9e15 }),
      problem: /savedAtMs is not a time/,
    },
    {
      what: 'a tensor larger than its pieces',
      change: (content) => {
        const [first, ...rest] = content.tensors;
        return { ...content, tensors: [{ ...first!, globalShape: [2 ** 31, 8] }, ...rest] };
      },
      problem: /elements are in no piece/,
    },
    {
      what: 'a piece without its checksums',
      change: (content) => {
        const [first, ...rest] = content.tensors;
        const size = 2 ** 40;
        const piece = { ...first!.pieces[0]!, slices: [[0, size]] };
        return { ...content, tensors: [{ ...first!, globalShape: [size], pieces: [piece] }, ...rest] };
      },
      problem: /has 1 checksums for 1048576 blocks/,
    },
    {
      what: 'a header larger than any file',
      change: (content) => ({ ...content, shards: [{ ...content.shards[0]!, headerBytes: 2 ** 52 }] }),
      problem: /checksums for 1073741824 blocks/,
    },
  ])('and $what is refused', async ({ change, problem }) => {
    const path = await craft(change);
    await expect(Checkpoint.open(path)).rejects.toMatchObject({
      code: 'MTL_CHECKPOINT_CORRUPT',
      message: expect.stringMatching(problem),
    });
  });

  it('and JSON too deep for the stack is refused', async () => {
    const path = await save(1);
    const deep = `${'['.repeat(1e6)}${']'.repeat(1e6)}`;
    const manifest = `{"format":"mtl-checkpoint","formatVersion":1,"sha256":"","content":${deep}}`;
    await writeFile(join(path, 'manifest.json'), manifest);
    await expect(Checkpoint.open(path)).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_CORRUPT' });
  });
});
