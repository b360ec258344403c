import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UsageError } from '@mtl/errors';
import { type Dtype, volumeOfShape } from '@mtl/layout';
import { withIoErrors } from '../files/io-error.js';
import { dtypeBytes } from '../tensors/dtype.js';
import { checkValues, type ValueCheck } from '../tensors/finite-values.js';
import { distributedMetadataName } from './distributed-torch-directory.js';
import { encodeTorchTensor } from './encode-torch-file.js';
import { PickledGlobal, PickledObject } from './read-pickle.js';
import { findTorchName } from './torch-pickle.js';
import { PickledTuple, type PickleValue, writePickle } from './write-pickle.js';

/** A tensor to write, as boxes that cover it. The bytes are requested box by box. */
export interface DistributedTensorSource {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly chunks: readonly {
    readonly offsets: readonly number[];
    readonly sizes: readonly number[];
    /** The check of the tensor's values. Default: none. */
    readonly check?: ValueCheck | undefined;
    /** Returns the bytes of the box, which must not change until the next box is requested. */
    read(): Uint8Array | Promise<Uint8Array>;
  }[];
}

interface WrittenChunk {
  readonly name: string;
  readonly offsets: readonly number[];
  readonly index: number;
  readonly start: number;
  readonly length: number;
}

const dataFile = '__0_0.distcp';

/**
 * Writes the files that a single process of torch.distributed.checkpoint would write: a data file and
 * `.metadata`. The directory must exist. At most one box is in memory at a time.
 *
 * @throws CheckpointError MTL_NOT_FINITE, MTL_CHECKPOINT_DISK_FULL, _DENIED, _IO
 * @throws UsageError MTL_TORCH_FILE_DTYPE; MTL_TORCH_FILE_SOURCE if a box does not have the declared number
 *   of bytes
 */
export async function writeDistributedTorchDirectory(options: {
  readonly directory: string;
  readonly tensors: readonly DistributedTensorSource[];
}): Promise<void> {
  const { directory, tensors } = options;
  const path = join(directory, dataFile);
  const written = await withIoErrors({ action: 'write', path }, () => writeData(path, tensors));
  const metadata = join(directory, distributedMetadataName);
  await withIoErrors({ action: 'write', path: metadata }, () =>
    writeFile(metadata, writePickle(describeMetadata(tensors, written))),
  );
}

async function writeData(path: string, tensors: readonly DistributedTensorSource[]): Promise<WrittenChunk[]> {
  const written: WrittenChunk[] = [];
  const handle = await open(path, 'wx');
  try {
    let position = 0;
    for (const { name, dtype, chunks } of tensors) {
      for (const [index, { offsets, sizes, check, ...chunk }] of chunks.entries()) {
        const bytes = await chunk.read();
        const declared = volumeOfShape(sizes) * dtypeBytes[dtype];
        if (bytes.length !== declared) {
          throw new UsageError('MTL_TORCH_FILE_SOURCE', `${name} gave ${bytes.length} bytes`, {
            expected: `${declared}: ${dtype} of shape [${sizes.join(', ')}]`,
          });
        }
        if (check !== undefined) checkValues(bytes, { dtype, check });
        const start = position;
        for (const part of encodeTorchTensor({ dtype, shape: sizes, bytes })) {
          await handle.writeFile(part);
          position += part.length;
        }
        written.push({ name, offsets, index, start, length: position - start });
      }
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
  return written;
}

const module = 'torch.distributed.checkpoint.metadata';

function instance(path: string, attributes: Readonly<Record<string, PickleValue>>): PickledObject {
  const object = new PickledObject(path, []);
  object.state = new Map(Object.entries(attributes));
  return object;
}

const makeSize = (sizes: readonly number[]): PickledObject =>
  new PickledObject('torch.Size', [new PickledTuple(sizes)]);

/** Returns the attributes of a `Metadata` object of torch.distributed.checkpoint. */
function describeMetadata(
  tensors: readonly DistributedTensorSource[],
  written: readonly WrittenChunk[],
): PickledObject {
  const described = tensors.map(({ name, dtype, shape, chunks }): [string, PickleValue] => {
    const properties = new PickledObject(`${module}.TensorProperties`, []);
    properties.state = new PickledTuple([
      new PickledGlobal('torch', findTorchName(dtype)!),
      new PickledObject('torch.serialization._get_layout', ['torch.strided']),
      false,
      new PickledObject(`${module}._MEM_FORMAT_ENCODING`, [0]),
      false,
    ]);
    const boxes = chunks.map(({ offsets, sizes }) =>
      instance(`${module}.ChunkStorageMetadata`, { offsets: makeSize(offsets), sizes: makeSize(sizes) }),
    );
    return [
      name,
      instance(`${module}.TensorStorageMetadata`, { properties, size: makeSize(shape), chunks: boxes }),
    ];
  });
  const storage = written.map(({ name, offsets, index, start, length }): [PickleValue, PickleValue] => [
    instance(`${module}.MetadataIndex`, { fqn: name, offset: makeSize(offsets), index }),
    instance('torch.distributed.checkpoint.filesystem._StorageInfo', {
      relative_path: dataFile,
      offset: start,
      length,
    }),
  ]);
  return instance(`${module}.Metadata`, {
    state_dict_metadata: new Map(described),
    planner_data: new Map(tensors.map(({ name }) => [name, new PickledTuple([name])])),
    storage_data: new Map(storage),
    storage_meta: null,
  });
}
