import { KernelError, UsageError } from '@mtl/errors';
import { describeOperand } from './checked-operation.js';
import { type Device, deviceNumber } from './device.js';
import { addon, callNative } from './native/addon.js';
import type { OperationSchema, OperationStatistics } from './native/kernels-addon.js';
import type { Tensor } from './tensor.js';

let numbers: Map<string, number> | undefined;

function operationNumber(name: string): number {
  numbers ??= new Map(
    addon()
      .operations()
      .map((operation, index) => [operation.name, index]),
  );
  const number = numbers.get(name);
  if (number === undefined)
    throw new KernelError('MTL_UNSUPPORTED', `the native kernels have no operation ${name}`);
  return number;
}

/** The error for an operand that TypeScript would have refused. */
function wrongOperand(
  operation: string,
  kind: 'tensors' | 'attributes',
  { position, value }: { readonly position: number; readonly value: unknown },
): UsageError {
  const schema = listOperations().find(({ name }) => name === operation);
  const operand = schema?.[kind][position]?.replace('?', '') ?? `operand ${position}`;
  return new UsageError('MTL_ARGUMENT', `${operation}: ${operand} is ${describeOperand(value)}`, {
    expected: kind === 'tensors' ? 'a Tensor' : 'a number or a boolean',
  });
}

/**
 * Runs a native operation: tensors in the order of its schema (outputs first, undefined for an optional one
 * left out), then attributes. The named functions in operations/ are the public way; this is what they are
 * made of.
 */
export function runOperation(
  name: string,
  tensors: readonly (Tensor | undefined)[],
  attributes: readonly (number | boolean)[] = [],
): void {
  const { callNumbers } = addon();
  let position = 0;
  for (const tensor of tensors) {
    const handle = tensor === undefined ? 0 : tensor?.handle;
    if (typeof handle !== 'number') throw wrongOperand(name, 'tensors', { position, value: tensor });
    callNumbers[position++] = handle;
  }
  for (const attribute of attributes) {
    if (typeof attribute !== 'number' && typeof attribute !== 'boolean') {
      const place = { position: position - tensors.length, value: attribute };
      throw wrongOperand(name, 'attributes', place);
    }
    callNumbers[position++] = Number(attribute);
  }
  callNative(() => addon().run(operationNumber(name), tensors.length, attributes.length));
}

/** All native operations with the names of their tensors and attributes. */
export function listOperations(): OperationSchema[] {
  return callNative(() => addon().operations());
}

/** Whether a device has a kernel for an operation. */
export function supportsOperation(name: string, device: Device): boolean {
  return callNative(() => addon().supports(operationNumber(name), deviceNumber(device)));
}

/**
 * Floating-point operations of matmuls and attention run since the last reset (2 per
 * multiply-add).
 */
export function countedFlops(): number {
  return addon().countedFlops();
}

export function resetCountedFlops(): void {
  addon().resetCountedFlops();
}

/** Calls and seconds of every operation on this thread: a profile, and what a step spends elsewhere. */
export function operationStatistics(): OperationStatistics[] {
  return addon().operationStatistics();
}
