import type { Tensor } from './tensor.js';

/** Open `tidy` scopes of this thread, innermost last; each holds the tensors made in it. */
const scopes: Set<Tensor>[] = [];

/** Hands a new tensor to the innermost scope, if there is one. Called by Tensor alone. */
export function adoptIntoScope(tensor: Tensor): void {
  scopes.at(-1)?.add(tensor);
}

function tensorsIn(value: unknown, found: Set<Tensor>): Set<Tensor> {
  if (value === null || typeof value !== 'object') return found;
  if ('handle' in value && 'dispose' in value) found.add(value as Tensor);
  else if (!ArrayBuffer.isView(value)) for (const part of Object.values(value)) tensorsIn(part, found);
  return found;
}

/**
 * Runs `body` and disposes of every tensor made in it, except those in what it returns (a tensor, or plain
 * objects and arrays of them), which move to the enclosing scope if there is one.
 */
export function tidy<T>(body: () => T): T {
  const scope = new Set<Tensor>();
  scopes.push(scope);
  let kept = new Set<Tensor>();
  try {
    const result = body();
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
