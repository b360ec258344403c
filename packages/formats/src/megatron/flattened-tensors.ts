import { TorchTensor } from '@mtl/checkpoint';
import { megatronError } from './megatron-error.js';

/** Deeper than any model of Megatron-LM nests its parts. */
const maxDepth = 12;

/**
 * The tensors of a model's state by their names, parts of nested dictionaries joined by dots. What is no
 * tensor is left out: state of fp8 kernels, for example.
 */
export function flattenedTensors(model: unknown, path: string): ReadonlyMap<string, TorchTensor> {
  if (!(model instanceof Map)) {
    throw megatronError(path, 'it contains no model', {
      expected: 'a dictionary `model`, or `model0` and so on',
    });
  }
  const tensors = new Map<string, TorchTensor>();
  let numValues = 0;
  const add = (values: ReadonlyMap<unknown, unknown>, prefix: string, depth: number): void => {
    if (depth > maxDepth) throw megatronError(path, `its model is nested deeper than ${maxDepth} levels`);
    for (const [key, value] of values) {
      // a dictionary may be contained many times in one file
      if (++numValues > 1_000_000) throw megatronError(path, 'its model has more than a million parts');
      const name = `${prefix}${String(key)}`;
      if (value instanceof TorchTensor) tensors.set(name, value);
      else if (value instanceof Map) add(value, `${name}.`, depth + 1);
    }
  };
  add(model as ReadonlyMap<unknown, unknown>, '', 0);
  return tensors;
}
