import { KernelError, UsageError } from '@mtl/errors';
import { describeOperand } from './checked-operation.js';
import { type Device, deviceNumber } from './device.js';
import { addon, callNative } from './native/addon.js';
import type { OperationSchema, OperationStatistics } from './native/kernels-addon.js';
import type { Tensor } from './tensor.js';

/** The declaration of one operand in the schema of its operation. */
interface Operand {
  readonly name: string;
  /**
   * The index at which a call reads the operand in `callNumbers`. Tensors come first, in the order of the
   * schema, then attributes.
   */
  readonly position: number;
  readonly isTensor: boolean;
  readonly isRequired: boolean;
}

/** The schema of an operation, with its operands by name. */
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

/** Describes the operands that an operation declares, for errors. */
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

/** Returns the error for a value that TypeScript would have rejected. */
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
 * The operands of a call, by their names in the operation's schema; an undefined operand counts as omitted.
 */
export type Operands = Readonly<Record<string, Tensor | number | boolean | undefined>>;

/**
 * Runs a native operation. The public interface are the named functions in operations/, which call this
 * function.
 *
 * @param operands tensors and attributes, in any order; only optional tensors may be omitted
 * @throws UsageError `MTL_ARGUMENT` for an operand that is not in the schema, a missing operand, and a value
 *   of another type
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

/** The cost of a call of an operation. */
interface OperationCost {
  /** The time of the native call. On a GPU this call only enqueues the operation. */
  readonly seconds: number;
  /** The floating-point operations of the call, which `countedFlops` adds up. */
  readonly flops: number;
}

/**
 * A function that is called after an operation. It receives the operation's name, its tensors and attributes
 * by their names in the schema, and its cost.
 */
export type OperationObserver = (name: string, operands: Operands, cost: OperationCost) => void;

let observer: OperationObserver | undefined;

/**
 * Runs `body`, and calls `observe` after every operation of `body` on this thread, in order. If calls are
 * nested, only the innermost observer is called.
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

/** Returns true within `observeOperations`. A launched graph would hide its operations from the observer. */
export function areOperationsObserved(): boolean {
  return observer !== undefined;
}

/** Returns an attribute in the form for native code; undefined for a value that is not an attribute. */
function toNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return typeof value === 'boolean' ? Number(value) : undefined;
}

/** Lists all native operations with the names of their tensors and attributes. */
export function listOperations(): OperationSchema[] {
  return callNative(() => addon().operations());
}

/** Returns true if a device has a kernel for an operation. */
export function supportsOperation(name: string, device: Device): boolean {
  return callNative(() => addon().supports(operationNamed(name).number, deviceNumber(device)));
}

/**
 * Returns the floating-point operations of matmuls and attention since the last reset (2 per multiply-add).
 */
export function countedFlops(): number {
  return addon().countedFlops();
}

export function resetCountedFlops(): void {
  addon().resetCountedFlops();
}

/**
 * Returns calls and seconds of every operation on this thread: a profile. The rest of a step's time is spent
 * outside of operations.
 */
export function operationStatistics(): OperationStatistics[] {
  return addon().operationStatistics();
}
