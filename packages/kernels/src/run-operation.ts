import { KernelError, UsageError } from '@mtl/errors';
import { describeOperand } from './checked-operation.js';
import { type Device, deviceNumber } from './device.js';
import { addon, callNative } from './native/addon.js';
import type { OperationSchema, OperationStatistics } from './native/kernels-addon.js';
import type { Tensor } from './tensor.js';

/** An operand, as declared in its operation's schema. */
interface Operand {
  readonly name: string;
  /**
   * The operand's index in `callNumbers`. Tensors come first, in the order of the schema, and then
   * attributes.
   */
  readonly position: number;
  readonly isTensor: boolean;
  readonly isRequired: boolean;
}

/** An operation's schema, with its operands by name. */
interface Operation {
  readonly number: number;
  readonly operands: ReadonlyMap<string, Operand>;
  /** The operands in the order of the last call. The next call usually has the same order. */
  readonly lastOrder: Operand[];
  readonly numTensors: number;
  readonly numRequired: number;
}

function describeOperation({ tensors, attributes }: OperationSchema, number: number): Operation {
  const operands = new Map<string, Operand>();
  for (const declared of tensors) {
    const [name, isRequired] = [declared.replace('?', ''), !declared.endsWith('?')];
    operands.set(name, { name, position: operands.size, isTensor: true, isRequired });
  }
  for (const name of attributes) {
    operands.set(name, { name, position: operands.size, isTensor: false, isRequired: true });
  }
  const numRequired = [...operands.values()].filter(({ isRequired }) => isRequired).length;
  return { number, operands, lastOrder: [], numTensors: tensors.length, numRequired };
}

let operations: ReadonlyMap<string, Operation> | undefined;

function operationNamed(name: string): Operation {
  operations ??= new Map(
    listOperations().map((schema, index) => [schema.name, describeOperation(schema, index)]),
  );
  const operation = operations.get(name);
  if (operation === undefined)
    throw new KernelError('MTL_UNSUPPORTED', `the native kernels have no operation ${name}`);
  return operation;
}

/** Describes an operation's operands, for error messages. */
function describeOperands({ operands }: Operation): string {
  const names = (areTensors: boolean): string =>
    [...operands]
      .filter(([, { isTensor }]) => isTensor === areTensors)
      .map(([name, { isRequired }]) => (isRequired ? name : `${name} (optional)`))
      .join(', ') || 'none';
  return `tensors: ${names(true)}; attributes: ${names(false)}`;
}

function unknownOperand(operation: string, operand: string): UsageError {
  return new UsageError('MTL_ARGUMENT', `${operation}: unknown operand ${operand}`, {
    expected: describeOperands(operationNamed(operation)),
  });
}

/** Returns the error for an operand value that TypeScript would have rejected. */
function wrongOperand(operation: string, operand: string, value: unknown): UsageError {
  const isTensor = operationNamed(operation).operands.get(operand)?.isTensor;
  return new UsageError('MTL_ARGUMENT', `${operation}: ${operand} is ${describeOperand(value)}`, {
    expected: isTensor ? 'a Tensor' : 'a number or a boolean',
  });
}

function missingOperand(operation: string, given: Operands): UsageError {
  const declared = operationNamed(operation);
  const isGiven = ([name, { isTensor }]: [string, Operand]): boolean => isTensor && given[name] !== undefined;
  if (![...declared.operands].some(isGiven)) {
    return new UsageError('MTL_ARGUMENT', `${operation}: none of its tensors is given`, {
      expected: describeOperands(declared),
      remedy: 'call it with one object that has the operands by name',
    });
  }
  const [missing] = [...declared.operands].find(
    ([name, { isRequired }]) => isRequired && given[name] === undefined,
  )!;
  return new UsageError('MTL_ARGUMENT', `${operation}: ${missing} is missing`, {
    expected: describeOperands(declared),
  });
}

/**
 * The operands of a call, by their names in the operation's schema. An undefined operand counts as omitted.
 */
export type Operands = Readonly<Record<string, Tensor | number | boolean | undefined>>;

/**
 * Runs a native operation. The named functions in operations/ are the public interface, and call this
 * function.
 *
 * @param operands tensors and attributes, in any order; only optional tensors may be omitted
 * @throws UsageError `MTL_ARGUMENT` for an operand that is not in the schema, for a missing operand, and for
 *   a value of the wrong type
 */
export function runOperation(name: string, operands: Operands): void {
  const operation = operationNamed(name);
  const { lastOrder, numTensors, numRequired } = operation;
  const { callNumbers } = addon();
  for (let position = 0; position < numTensors; position++) callNumbers[position] = 0; // left out
  let numMissing = numRequired;
  let place = 0;
  for (const key in operands) {
    let operand = lastOrder[place];
    if (operand?.name !== key) {
      operand = operation.operands.get(key);
      if (operand === undefined) throw unknownOperand(name, key);
      lastOrder[place] = operand;
    }
    place++;
    const value = operands[key];
    if (value === undefined) continue;
    const number = operand.isTensor ? (value as Tensor | null)?.handle : toNumber(value);
    if (typeof number !== 'number') throw wrongOperand(name, key, value);
    callNumbers[operand.position] = number;
    if (operand.isRequired) numMissing--;
  }
  if (numMissing > 0) throw missingOperand(name, operands);
  if (observer === undefined) callNative(() => addon().run(operation.number));
  else {
    const flops = countedFlops();
    const start = performance.now();
    callNative(() => addon().run(operation.number));
    const seconds = (performance.now() - start) / 1000;
    observer(name, operands, { seconds, flops: countedFlops() - flops });
  }
}

/** The cost of one call of an operation. */
interface OperationCost {
  /** The duration of the native call in seconds. On a GPU, this call only enqueues the operation. */
  readonly seconds: number;
  /** The number of floating-point operations in the call, which `countedFlops` adds up. */
  readonly flops: number;
}

/**
 * A function that is called after each operation. It receives the operation's name, its tensors and
 * attributes by their names in the schema, and its cost.
 */
export type OperationObserver = (name: string, operands: Operands, cost: OperationCost) => void;

let observer: OperationObserver | undefined;

/**
 * Runs `body`, and calls `observe` after every operation that `body` runs on this thread, in order. If calls
 * are nested, only the innermost observer is called.
 */
export function observeOperations<Result>(observe: OperationObserver, body: () => Result): Result {
  const outer = observer;
  observer = observe;
  try {
    return body();
  } finally {
    observer = outer;
  }
}

/**
 * Returns true while `observeOperations` runs. Code then must not launch graphs, which would hide their
 * operations from the observer.
 */
export function areOperationsObserved(): boolean {
  return observer !== undefined;
}

/**
 * Converts an attribute to the number that native code receives; undefined if the value is not an attribute.
 */
function toNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return typeof value === 'boolean' ? Number(value) : undefined;
}

/** Returns the schemas of all native operations, which contain the names of their tensors and attributes. */
export function listOperations(): OperationSchema[] {
  return callNative(() => addon().operations());
}

/** Returns true if the device has a kernel for the operation `name`. */
export function supportsOperation(name: string, device: Device): boolean {
  return callNative(() => addon().supports(operationNamed(name).number, deviceNumber(device)));
}

/**
 * Returns the number of floating-point operations in matmuls and attention since the last reset (2 per
 * multiply-add).
 */
export function countedFlops(): number {
  return addon().countedFlops();
}

export function resetCountedFlops(): void {
  addon().resetCountedFlops();
}

/**
 * Returns a profile: how often every operation was called on this thread, and how long it took. The rest of a
 * step's time is spent outside of operations.
 */
export function operationStatistics(): OperationStatistics[] {
  return addon().operationStatistics();
}
