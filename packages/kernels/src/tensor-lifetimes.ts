import { UsageError } from '@mtl/errors';
import { addon } from './native/addon.js';

/** The properties of a Tensor that `tidy` needs. */
interface ScopedTensor {
  readonly handle: number;
  dispose(): void;
}

/** This thread's open `tidy` scopes, innermost last. A scope contains the tensors that were created in it. */
const scopes: Set<ScopedTensor>[] = [];

/**
 * Adds a new tensor to the innermost scope, if there is a scope. Only the class Tensor calls this function.
 */
export function adoptIntoScope(tensor: ScopedTensor): void {
  scopes.at(-1)?.add(tensor);
}

function tensorsIn(value: unknown, found: Set<ScopedTensor>): Set<ScopedTensor> {
  if (value === null || typeof value !== 'object') return found;
  if ('handle' in value && 'dispose' in value) found.add(value as ScopedTensor);
  else if (!ArrayBuffer.isView(value)) for (const part of Object.values(value)) tensorsIn(part, found);
  return found;
}

function refusal(promise: Promise<unknown>): UsageError {
  // ignores the result of the promise, which may depend on tensors that have been disposed of
  promise.catch(() => {});
  return new UsageError('MTL_TIDY', 'the body of tidy returned a promise', {
    expected: 'a function that is done when it returns',
    remedy: 'await outside of tidy, and dispose of tensors that live across an await yourself',
  });
}

/**
 * Runs `body` and disposes of every tensor created in it, except tensors in its result (a tensor, or plain
 * objects and arrays that contain tensors). The tensors in the result move to the enclosing scope, if there
 * is one.
 *
 * @throws UsageError `MTL_TIDY` when `body` returns a promise, because its tensors would be disposed of
 *   before the promise is fulfilled
 */
export function tidy<T>(body: () => T): T {
  const scope = new Set<ScopedTensor>();
  scopes.push(scope);
  let kept = new Set<ScopedTensor>();
  try {
    const result = body();
    if (result instanceof Promise) throw refusal(result);
    kept = tensorsIn(result, kept);
    return result;
  } finally {
    scopes.pop();
    for (const tensor of scope) {
      if (kept.has(tensor)) adoptIntoScope(tensor);
      else tensor.dispose();
    }
  }
}

/**
 * Returns how many tensors, including views, have not been disposed of. The result stays the same if code has
 * no leaks.
 */
export function numLiveTensors(): number {
  return addon().numLiveTensors();
}

/**
 * If `enabled` is true, fills the memory of new tensors with NaN, to detect kernels that read outputs before
 * writing them.
 */
export function setPoison(enabled: boolean): void {
  addon().setPoison(enabled);
}
