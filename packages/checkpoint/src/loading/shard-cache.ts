import { join } from 'node:path';
import { shapeOfSlices } from '@mtl/layout';
import { type Checkpoint, corruptCheckpoint } from '../checkpoints/checkpoint.js';
import type { PieceRecord, TensorRecord } from '../checkpoints/manifest.js';
import { checksumBlockBytes } from '../files/block-checksums.js';
import { checkBlock, readFully, type StoredBytes } from '../files/run-reader.js';
import { SafetensorsFile } from '../safetensors/safetensors-file.js';
import { dtypeBytes } from '../tensors/dtype.js';
import type { ValueCheck } from '../tensors/finite-values.js';
import { slicesFromStored } from '../tensors/stored-slices.js';

// The maximum number of open shard files. A checkpoint may have many shards, and a process may usually open
// only 1024 files.
const maxOpenFiles = 32;

/** The shard files of a checkpoint. A file is opened and checked against the manifest at its first use. */
export class ShardCache {
  readonly #checkpoint: Checkpoint;
  readonly #open = new Map<number, SafetensorsFile>();

  constructor(checkpoint: Checkpoint) {
    this.#checkpoint = checkpoint;
  }

  /**
   * Returns the file of shard `index`, and opens it if necessary. Opening may close the least recently used
   * file, so the caller must use the result before it requests other files.
   *
   * @throws CheckpointError MTL_CHECKPOINT_CORRUPT if size or header differ from the manifest;
   *   MTL_SAFETENSORS_INVALID
   */
  async file(index: number): Promise<SafetensorsFile> {
    const known = this.#open.get(index);
    if (known !== undefined) {
      this.#open.delete(index);
      this.#open.set(index, known);
      return known;
    }
    const { path, manifest } = this.#checkpoint;
    const shard = manifest.shards[index]!;
    const file = await SafetensorsFile.open(join(path, shard.file));
    try {
      if (file.bytes !== shard.bytes || file.headerBytes !== shard.headerBytes) {
        throw corruptCheckpoint(
          path,
          `${shard.file} has ${file.bytes} bytes where ${shard.bytes} were saved`,
        );
      }
      await checkHeader(file, shard.headerCrc32);
    } catch (error) {
      await file.close();
      throw error;
    }
    this.#open.set(index, file);
    const [oldest] = this.#open;
    if (this.#open.size > maxOpenFiles && oldest !== undefined) {
      this.#open.delete(oldest[0]);
      await oldest[1].close();
    }
    return file;
  }

  /** Returns where the bytes of a piece are, the checksums of the bytes, and the check for their values. */
  async stored(
    tensor: TensorRecord,
    piece: PieceRecord,
    { requireFinite }: { readonly requireFinite: boolean },
  ): Promise<StoredBytes> {
    const file = await this.file(piece.shard);
    const entry = file.tensors.get(piece.key);
    const shape = shapeOfSlices(slicesFromStored(piece.slices));
    if (entry === undefined || entry.dtype !== tensor.dtype || entry.shape.join() !== shape.join()) {
      const what = `${JSON.stringify(piece.key)} as ${tensor.dtype} of [${shape.join(', ')}]`;
      throw corruptCheckpoint(this.#checkpoint.path, `${file.path} does not hold ${what}`);
    }
    return {
      handle: file.handle,
      path: file.path,
      name: tensor.name,
      offset: entry.offset,
      bytes: shape.reduce((product, size) => product * size, dtypeBytes[tensor.dtype]),
      checksums: piece.crc32,
      ...(requireFinite
        ? { values: { dtype: tensor.dtype, check: this.#describeCheck(tensor, piece) } }
        : {}),
    };
  }

  #describeCheck({ name }: TensorRecord, { slices }: PieceRecord): ValueCheck {
    return {
      place: this.#checkpoint.path,
      name,
      slices: slicesFromStored(slices),
      remedy: 'load an older checkpoint (--ckpt-step): such a value spreads to all others',
      exitCode: 2,
    };
  }

  async close(): Promise<void> {
    const files = [...this.#open.values()];
    this.#open.clear();
    await Promise.all(files.map((file) => file.close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Checks the file's header block by block, including the length field before it. */
async function checkHeader(file: SafetensorsFile, checksums: readonly number[]): Promise<void> {
  const header = new Uint8Array(file.headerBytes);
  await readFully({ source: file, bytes: header, position: 0 });
  const source = { path: file.path, name: 'its header', checksums };
  for (const block of checksums.keys()) {
    const start = block * checksumBlockBytes;
    checkBlock({ source, block, bytes: header.subarray(start, start + checksumBlockBytes), start });
  }
}
