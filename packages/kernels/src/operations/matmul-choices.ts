import { type Device, deviceNumber, trimMemory } from '../device.js';
import { bytesPerElement, type DType } from '../dtype.js';
import { addon, callNative } from '../native/addon.js';
import type { MatmulKernel } from '../native/kernels-addon.js';
import { type Operands, type OperationObserver, runOperation } from '../run-operation.js';
import { Tensor } from '../tensor.js';
import { tidy } from '../tensor-lifetimes.js';
import { cast } from './elementwise.js';

/** The properties of a tensor that affect which algorithm is chosen for a matmul. */
interface MatmulOperand {
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** The largest power of two, up to 256, that divides the tensor's address. */
  readonly alignment: number;
}

/**
 * An operation that multiplies matrices, with all properties that affect which algorithm is chosen for it.
 */
interface MatmulCall {
  readonly name: string;
  readonly tensors: Readonly<Record<string, MatmulOperand>>;
  readonly attributes: Readonly<Record<string, number | boolean>>;
}

/** The devices whose matmuls have choices. */
export type ChoosingDevice = Extract<Device, 'cpu' | 'cuda'>;

/**
 * The operations that have choices. On device `cuda`, cuBLASLt computes these operations completely or in
 * part. Device `cpu` runs only `matmul`; native code composes the other operations from it.
 */
const matmulOperations: readonly string[] = [
  'matmul',
  'linear_gelu_forward',
  'linear_gelu_backward',
  'linear_residual_forward',
  'linear_weight_gradient',
];

/**
 * Collects the matmuls that `timeMatmuls` should time. Observes operations (see `observeOperations`), even on
 * the devices `meta` and `meta-cuda`, and keeps each different matmul once.
 */
export class MatmulCalls implements Iterable<MatmulCall> {
  readonly #calls = new Map<string, MatmulCall>();

  readonly observe: OperationObserver = (name, operands) => {
    if (!matmulOperations.includes(name)) return;
    const tensors: Record<string, MatmulOperand> = {};
    const attributes: Record<string, number | boolean> = {};
    for (const [operand, value] of Object.entries(operands)) {
      if (value === undefined) continue;
      if (typeof value !== 'object') attributes[operand] = value;
      else {
        const { shape, dtype, handle } = value;
        tensors[operand] = { shape, dtype, alignment: addon().alignmentOf(handle) };
      }
    }
    const call = { name, tensors, attributes };
    this.#calls.set(JSON.stringify(call), call);
  };

  [Symbol.iterator](): Iterator<MatmulCall> {
    return this.#calls.values();
  }
}

/**
 * The algorithms for matmuls: maps a problem's name to its algorithm, both as strings. On device `cuda`, a
 * problem consists of sizes, types, alignments and fusion. Its algorithm is one of cuBLASLt's algorithms, and
 * is valid only for a certain GPU, driver and version of cuBLASLt. On device `cpu`, a problem consists of
 * types, sizes and transposed operands, and its algorithm is a `MatmulKernel`.
 */
export type MatmulChoices = Readonly<Record<string, string>>;

const formatChoices = (choices: MatmulChoices): string =>
  Object.entries(choices)
    .map(([problem, algorithm]) => `${problem} ${algorithm}\n`)
    .join('');

function parseChoices(lines: string): MatmulChoices {
  const pairs = lines.split('\n').filter((line) => line !== '');
  return Object.fromEntries(pairs.map((line) => line.split(' ') as [string, string]));
}

interface MatmulChoiceOptions {
  /**
   * The device for whose matmuls algorithms are chosen. On `cpu`, the choices affect only the calling thread.
   */
  readonly device: ChoosingDevice;
}

/**
 * Makes a device's matmuls use the given algorithms from now on. Every problem without a choice uses
 * cuBLASLt's first algorithm on `cuda`, and the table of measurements on `cpu`. A matmul throws
 * `MTL_MATMUL_CHOICES` if the chosen algorithm cannot compute it.
 *
 * @throws KernelError `MTL_MATMUL_CHOICES` for a string that is not a choice; `MTL_DEVICE` unless the device
 *   is open; `MTL_CAPTURE` while a graph is being recorded
 */
export function useMatmulChoices(choices: MatmulChoices, { device }: MatmulChoiceOptions): void {
  callNative(() => addon().setMatmulChoices(deviceNumber(device), formatChoices(choices), false));
}

/**
 * Returns the choices that a device's matmuls use.
 *
 * @throws KernelError `MTL_DEVICE` unless the device is open
 */
export function matmulChoicesInUse({ device }: MatmulChoiceOptions): MatmulChoices {
  return parseChoices(callNative(() => addon().matmulChoices(deviceNumber(device))));
}

/**
 * Runs matmuls on a device, and times the candidates for each problem that is not in `known`. Each matmul has
 * separate memory, which is returned afterwards.
 *
 * @returns `known` and the new choices, which are then in use
 * @throws KernelError the errors of `useMatmulChoices`, and `MTL_OUT_OF_MEMORY`; after an error, no choices
 * are in use
 */
export function timeMatmuls(
  calls: Iterable<MatmulCall>,
  { device, known = {} }: MatmulChoiceOptions & { readonly known?: MatmulChoices },
): MatmulChoices {
  callNative(() => addon().setMatmulChoices(deviceNumber(device), formatChoices(known), true));
  let chosen: MatmulChoices = {};
  try {
    for (const call of calls) repeat(call, device);
    chosen = matmulChoicesInUse({ device });
  } finally {
    useMatmulChoices(chosen, { device });
  }
  return chosen;
}

/** Returns the code that computed the last matmul on device `cpu`; undefined before the first matmul. */
export const lastMatmulKernel = (): MatmulKernel | undefined => addon().lastMatmulKernel();

/** The alignment, in bytes, of a tensor that has its own memory. No algorithm requires a larger alignment. */
const widestAlignment = 256;

/**
 * The size of a block of random numbers. The operands are filled with such blocks: with zeros, a GPU would
 * need less power and be faster.
 */
const blockSize = 2 ** 20;

function randomBlock(size: number, device: ChoosingDevice): Tensor {
  let state = 1;
  const values = Float32Array.from({ length: Math.min(size, blockSize) }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0; // Numerical Recipes
    return state / 2 ** 31;
  });
  return Tensor.from(values, { shape: [values.length], dtype: 'float32', device });
}

/** Runs a call with random tensors that are aligned like the call's tensors. */
function repeat({ name, tensors, attributes }: MatmulCall, device: ChoosingDevice): void {
  tidy(() => {
    const operands: Record<string, Operands[string]> = { ...attributes };
    const countElements = (shape: readonly number[]): number =>
      shape.reduce((product, each) => product * each, 1);
    const largest = Math.max(...Object.values(tensors).map(({ shape }) => countElements(shape)));
    const block = randomBlock(largest, device);
    for (const [operand, { shape, dtype, alignment }] of Object.entries(tensors)) {
      const offset = alignment === widestAlignment ? 0 : alignment / bytesPerElement(dtype);
      const size = countElements(shape);
      const all = Tensor.empty({ shape: [offset + size], dtype, device });
      for (let start = 0; start < size; start += block.size) {
        const length = [Math.min(block.size, size - start)];
        cast({
          output: all.view({ offset: offset + start, shape: length }),
          input: block.view({ shape: length }),
        });
      }
      operands[operand] = all.view({ offset, shape });
    }
    runOperation(name, operands);
  });
  trimMemory(device);
}
