import { crc32 } from 'node:zlib';
import { UsageError } from '@mtl/errors';
import { volumeOfShape } from '../boxes.js';
import type { Dtype } from '../dtype.js';
import { PickledGlobal, PickledObject } from './pickled-object.js';
import { planZip } from './plan-zip.js';
import { storageClassOf } from './torch-constructors.js';
import { PersistentIdentifier, PickledTuple, type PickleValue, writePickle } from './write-pickle.js';

/** A tensor to write: its bytes are little-endian and row-major. */
export interface TensorToEncode {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** The bytes of a file that torch.load reads as these values, in parts. */
export function encodeTorchObject(value: PickleValue): readonly Uint8Array[] {
  return encodeEntries([['data.pkl', writePickle(value)]]);
}

/**
 * The bytes of a file that torch.load reads as this tensor, in parts.
 *
 * @throws UsageError MTL_TORCH_FILE_DTYPE for a dtype that torch.save has no storage for
 */
export function encodeTorchTensor({ dtype, shape, bytes }: TensorToEncode): readonly Uint8Array[] {
  const storage = storageClassOf(dtype);
  if (storage === undefined) {
    throw new UsageError('MTL_TORCH_FILE_DTYPE', `a tensor of ${dtype} cannot be saved for PyTorch`, {
      expected: 'F32, BF16, F16, F64 or integers',
    });
  }
  const strides = shape.map((_, dim) => volumeOfShape(shape.slice(dim + 1)));
  const identifier = ['storage', new PickledGlobal('torch', storage), '0', 'cpu', volumeOfShape(shape)];
  const tensor = new PickledObject('torch._utils._rebuild_tensor_v2', [
    new PersistentIdentifier(new PickledTuple(identifier)),
    0,
    new PickledTuple(shape),
    new PickledTuple(strides),
    false,
    new PickledObject('collections.OrderedDict', []),
  ]);
  return encodeEntries([
    ['data.pkl', writePickle(tensor)],
    ['data/0', bytes],
  ]);
}

function encodeEntries(
  contents: readonly (readonly [name: string, bytes: Uint8Array])[],
): readonly Uint8Array[] {
  const all: readonly (readonly [string, Uint8Array])[] = [
    ...contents,
    ['byteorder', Buffer.from('little')],
    ['version', Buffer.from('3\n')],
  ];
  const plan = planZip(
    all.map(([name, bytes]) => ({ name: `archive/${name}`, bytes: bytes.length, checksum: crc32(bytes) })),
  );
  return [...all.flatMap(([, bytes], index) => [plan.headers[index]!, bytes]), plan.directory];
}
