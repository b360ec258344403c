import type { Dtype } from '@mtl/layout';
import { torchFileInvalid } from './file-range.js';
import {
  type PickleConstructors,
  PickledGlobal,
  PickledObject,
  type ReadPickleOptions,
  readPickle,
} from './read-pickle.js';
import { type TorchStorage, TorchTensor } from './torch-tensor.js';

/** The maximum size of a pickle, in bytes: the structure of a file takes a few hundred bytes per tensor. */
export const maxPickleBytes = 1 << 28;

/** Returns the options of `readPickle` for pickles that PyTorch wrote. */
export function torchPickleOptions(path: string): ReadPickleOptions {
  const invalid = (problem: string) => torchFileInvalid(path, problem);
  return {
    constructors: torchConstructors(invalid),
    persistent: (identifier) => readStorage(identifier, invalid),
    invalid,
  };
}

/** Reads a pickle whose classes are PyTorch's classes, as data. */
export const readTorchPickle = (bytes: Buffer, path: string): unknown =>
  readPickle(bytes, torchPickleOptions(path));

/** Dtypes by PyTorch's names. */
const dtypes: Readonly<Record<string, Dtype>> = {
  float64: 'F64',
  float32: 'F32',
  float16: 'F16',
  bfloat16: 'BF16',
  float8_e4m3fn: 'F8_E4M3',
  float8_e5m2: 'F8_E5M2',
  int64: 'I64',
  int32: 'I32',
  int16: 'I16',
  int8: 'I8',
  uint64: 'U64',
  uint32: 'U32',
  uint16: 'U16',
  uint8: 'U8',
  bool: 'BOOL',
  complex64: 'C64',
};

/** The dtypes of storages, keyed by the full name of the storage class. */
const storageDtypes: Readonly<Record<string, Dtype>> = {
  'torch.DoubleStorage': 'F64',
  'torch.FloatStorage': 'F32',
  'torch.HalfStorage': 'F16',
  'torch.BFloat16Storage': 'BF16',
  'torch.LongStorage': 'I64',
  'torch.IntStorage': 'I32',
  'torch.ShortStorage': 'I16',
  'torch.CharStorage': 'I8',
  'torch.ByteStorage': 'U8',
  'torch.BoolStorage': 'BOOL',
  'torch.ComplexFloatStorage': 'C64',
  'torch.storage.UntypedStorage': 'U8',
};

/**
 * Returns the dtype if a value of a pickle is the name of a dtype, such as `torch.float32`; otherwise
 * undefined.
 */
export function torchDtype(value: unknown): Dtype | undefined {
  if (!(value instanceof PickledGlobal) || value.module !== 'torch') return undefined;
  return Object.hasOwn(dtypes, value.name) ? dtypes[value.name] : undefined;
}

/** Returns PyTorch's name for a dtype, such as `float32`. */
export const findTorchName = (dtype: Dtype): string | undefined =>
  Object.entries(dtypes).find(([, known]) => known === dtype)?.[0];

/** Returns the name of the storage class of a dtype, in the module `torch`; undefined if there is none. */
export const findStorageClass = (dtype: Dtype): string | undefined =>
  Object.entries(storageDtypes)
    .find(([path, known]) => known === dtype && /^torch\.[A-Z]/.test(path))?.[0]
    .slice('torch.'.length);

/** A storage that a pickle refers to. */
export class StorageReference {
  readonly storage: TorchStorage;

  constructor(storage: TorchStorage) {
    this.storage = storage;
  }
}

type Invalid = (problem: string) => Error;

/**
 * Returns the storage that a persistent identifier from torch.save describes; an opaque object for a storage
 * of unknown dtype.
 */
function readStorage(identifier: unknown, invalid: Invalid): unknown {
  const [kind, type, key, , numElements] = Array.isArray(identifier) ? (identifier as unknown[]) : [];
  const isStorage = kind === 'storage' && type instanceof PickledGlobal && typeof key === 'string';
  if (!isStorage || !Number.isSafeInteger(numElements) || (numElements as number) < 0) {
    throw invalid('its pickle refers to what is no storage');
  }
  const dtype = Object.hasOwn(storageDtypes, type.path) ? storageDtypes[type.path] : undefined;
  if (dtype === undefined) return new PickledObject(type.path, []);
  return new StorageReference({ key, dtype, numElements: numElements as number });
}

/**
 * Returns the constructors for all calls in PyTorch files that create plain values: collections, tensors and
 * byte strings.
 */
function torchConstructors(invalid: Invalid): PickleConstructors {
  const tensor = (parameters: readonly unknown[], dtype?: Dtype): unknown => {
    const [reference, offset, shape, strides] = parameters;
    if (!(reference instanceof StorageReference)) {
      return new PickledObject('torch._utils._rebuild_tensor_v2', parameters);
    }
    const { storage } = reference;
    const sizes = Array.isArray(shape) ? (shape as number[]) : [Number.NaN];
    const steps = Array.isArray(strides) ? (strides as number[]) : [];
    const view = { shape: sizes, strides: steps, offset: offset as number, storage };
    return new TorchTensor({ ...view, dtype: dtype ?? storage.dtype });
  };
  const dictionary = ([items]: readonly unknown[]): Map<unknown, unknown> => {
    const pairs = Array.isArray(items) ? (items as unknown[]) : [];
    return new Map(pairs.filter((pair) => Array.isArray(pair)) as [unknown, unknown][]);
  };
  const bytes = ([content]: readonly unknown[]): Buffer => {
    if (typeof content !== 'string') throw invalid('its pickle has a byte string without content');
    return Buffer.from(content, 'latin1');
  };
  const set = ([items]: readonly unknown[]) => new Set(Array.isArray(items) ? (items as unknown[]) : []);
  return new Map<string, (parameters: readonly unknown[]) => unknown>([
    ['collections.OrderedDict', dictionary],
    ['collections.defaultdict', () => new Map()],
    ['builtins.set', set],
    ['__builtin__.set', set],
    ['_codecs.encode', bytes],
    ['torch.Size', ([sizes]) => (Array.isArray(sizes) ? sizes : [])],
    ['torch._utils._rebuild_tensor_v2', (parameters) => tensor(parameters)],
    [
      'torch._utils._rebuild_tensor_v3',
      (parameters) => {
        const dtype = torchDtype(parameters[6]);
        const path = 'torch._utils._rebuild_tensor_v3';
        return dtype === undefined ? new PickledObject(path, parameters) : tensor(parameters, dtype);
      },
    ],
    ['torch._utils._rebuild_parameter', ([data]) => data],
    ['torch._utils._rebuild_parameter_with_state', ([data]) => data],
  ]);
}
