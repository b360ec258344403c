// Saves and loads a state of 500 MB, and compares the times with writing and reading the same bytes as a
// plain file. Writes end with fsync in both cases. Reads are measured twice: from the disk, as in a resumed
// run, after dropping the file's pages (which needs `dd` from GNU coreutils), and from the page cache.
// Correctness is checked first. Every result is the best of `rounds`, in MB (10^6 bytes) per second.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, open, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import {
  BackgroundSaver,
  Checkpoint,
  findCheckpoint,
  hostTensor,
  loadCheckpoint,
  saveCheckpoint,
} from '@mtl/checkpoint';

const rounds = 5;
const layers = 12;
const hidden = 768;
const directory = await mkdtemp(join(process.argv[2] ?? tmpdir(), 'mtl-checkpoint-bench-'));

/**
 * Makes the parameters and both AdamW moments of a GPT with 12 layers and hidden size 768, reduced to about
 * 500 MB of float32.
 */
function makeTensors(fill) {
  const shapes = {};
  for (let layer = 0; layer < layers / 2; layer++) {
    const prefix = `layers.${layer}`;
    shapes[`${prefix}.norm.weight`] = [hidden];
    shapes[`${prefix}.norm.bias`] = [hidden];
    shapes[`${prefix}.attention.qkv.weight`] = [12, 3, 64, hidden];
    shapes[`${prefix}.attention.qkv.bias`] = [12, 3, 64];
    shapes[`${prefix}.attention.output.weight`] = [hidden, hidden];
    shapes[`${prefix}.mlp.up.weight`] = [4 * hidden, hidden];
    shapes[`${prefix}.mlp.down.weight`] = [hidden, 4 * hidden];
  }
  return ['model', 'optimizer.moment1', 'optimizer.moment2'].flatMap((kind) =>
    Object.entries(shapes).map(([name, globalShape]) => {
      const memory = new Uint8Array(4 * globalShape.reduce((a, b) => a * b, 1));
      if (fill) randomize(memory);
      return hostTensor({ name: `${kind}.${name}`, dtype: 'F32', globalShape, memory });
    }),
  );
}

function randomize(memory) {
  const words = new Uint32Array(memory.buffer);
  let state = words.length | 1;
  for (let index = 0; index < words.length; index++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    // the mask clears a bit of the exponent, so that every value is finite
    words[index] = state & 0xbfffffff;
  }
}

/** Drops the pages of a file from the page cache. Returns false if this is not possible. */
function dropPages(path) {
  const { status } = spawnSync('dd', [`if=${path}`, 'iflag=nocache', 'count=0', 'status=none']);
  return status === 0;
}

async function timed(operation) {
  const start = performance.now();
  await operation();
  return (performance.now() - start) / 1000;
}

async function rawWrite(path, buffers) {
  const handle = await open(path, 'w');
  let position = 0;
  for (const buffer of buffers) {
    for (let offset = 0; offset < buffer.length; offset += 8 << 20) {
      const length = Math.min(8 << 20, buffer.length - offset);
      await handle.write(buffer, offset, length, position);
      position += length;
    }
  }
  await handle.sync();
  await handle.close();
}

async function rawRead(path, buffers) {
  const handle = await open(path, 'r');
  let position = 0;
  for (const buffer of buffers) {
    for (let offset = 0; offset < buffer.length; offset += 8 << 20) {
      const { bytesRead } = await handle.read(
        buffer,
        offset,
        Math.min(8 << 20, buffer.length - offset),
        position,
      );
      position += bytesRead;
    }
  }
  await handle.close();
}

try {
  const saved = makeTensors(true);
  const loaded = makeTensors(false);
  const bytes = saved.reduce((sum, { memory }) => sum + memory.length, 0);
  const rawPath = join(directory, 'raw');
  const checkpoints = join(directory, 'checkpoints');
  const onNotice = () => {};
  const best = {};
  const keep = async (name, operation) => {
    best[name] = Math.min(best[name] ?? Infinity, await timed(operation));
  };
  const saver = new BackgroundSaver();
  let canDrop = true;
  for (let round = 0; round < rounds; round++) {
    // the two measurements alternate, so that a slow period of the machine affects both
    const iteration = round + 1;
    await rm(rawPath, { force: true });
    await rm(checkpoints, { recursive: true, force: true });
    await keep('raw write', () =>
      rawWrite(
        rawPath,
        saved.map(({ memory }) => memory),
      ),
    );
    let path;
    await keep('save', async () => {
      ({ path } = await saveCheckpoint({ directory: checkpoints, iteration, tensors: saved, state: {} }));
    });
    // measures how long the caller of a background save waits; the first round also allocates memory
    await keep('begin', () =>
      saver.begin({ directory: checkpoints, iteration: iteration + rounds, tensors: saved, state: {} }),
    );
    while (!saver.isWritten) await new Promise((resolve) => setTimeout(resolve, 5));
    await keep('finish', () => saver.finish());
    const files = (await readdir(path)).map((name) => join(path, name));
    const memories = loaded.map(({ memory }) => memory);
    for (const from of ['disk', 'cache']) {
      const drop = () => {
        if (from === 'disk') canDrop = [rawPath, ...files].map(dropPages).every(Boolean);
      };
      drop();
      if (from === 'cache') await rawRead(rawPath, memories);
      await keep(`raw read, ${from}`, () => rawRead(rawPath, memories));
      for (const memory of memories) memory.fill(0);
      drop();
      await keep(`load, ${from}`, async () => {
        const checkpoint = await Checkpoint.open(path);
        await loadCheckpoint({ checkpoint, tensors: loaded });
      });
      for (const [index, { memory, name }] of saved.entries()) {
        if (Buffer.compare(memory, memories[index]) !== 0) throw new Error(`${name} came back different`);
      }
      drop();
      await keep(`find and load, ${from}`, async () => {
        const { checkpoint } = await findCheckpoint({ directory: checkpoints, onNotice });
        await loadCheckpoint({ checkpoint, tensors: loaded });
      });
    }
  }
  const rate = (seconds) => Math.round(bytes / seconds / 1e6);
  const sample = saved[2].memory;
  const hash = async (operation) => {
    let least = Infinity;
    for (let round = 0; round < 20; round++) least = Math.min(least, await timed(async () => operation()));
    return Math.round(sample.length / least / 1e6);
  };
  console.log(
    `state: ${Math.round(bytes / 1e6)} MB in ${saved.length} tensors; bytes equal after loading: yes`,
  );
  const line = (name, raw, note) => {
    const against = raw === undefined ? '' : `ratio ${(best[raw] / best[name]).toFixed(2)}`;
    console.log(
      `${name.padEnd(22)} ${String(rate(best[name])).padStart(6)} MB/s  ${against.padEnd(10)}  ${note}`,
    );
  };
  line('raw write', undefined, 'one file, fsync');
  line('save', 'raw write', 'saveCheckpoint: shards, checksums, fsync, rename');
  for (const name of ['save', 'begin', 'finish']) {
    console.log(`the caller waits for ${name.padEnd(7)} ${(best[name] * 1000).toFixed(1).padStart(8)} ms`);
  }
  if (!canDrop) console.log('SKIPPED: pages cannot be dropped here, so "disk" below was the page cache');
  for (const from of ['disk', 'cache']) {
    const raw = `raw read, ${from}`;
    line(raw, undefined, 'one file');
    line(`load, ${from}`, raw, 'loadCheckpoint, every byte compared with its checksum');
    line(`find and load, ${from}`, raw, 'findCheckpoint verifies every byte, then loadCheckpoint');
  }
  console.log(`CRC-32 (zlib)          ${await hash(() => crc32(sample))} MB/s`);
  console.log(
    `SHA-256                ${await hash(() => createHash('sha256').update(sample).digest())} MB/s`,
  );
} finally {
  await rm(directory, { recursive: true, force: true });
}
