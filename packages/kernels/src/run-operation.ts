import { KernelError } from '@mtl/errors';
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
  for (const tensor of tensors) callNumbers[position++] = tensor === undefined ? 0 : tensor.handle;
  for (const attribute of attributes) callNumbers[position++] = Number(attribute);
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
 * Floating-point operations of the matrix products and attention run since the last reset (2 per
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
