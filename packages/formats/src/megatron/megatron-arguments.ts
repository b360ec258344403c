import { PickledGlobal, PickledObject } from '@mtl/checkpoint';
import { JsonFields } from '../huggingface/json-fields.js';
import { megatronError } from './megatron-files.js';

const namespaces = new Set(['argparse.Namespace', 'types.SimpleNamespace']);

/**
 * Returns the args of the training run that saved a checkpoint, as fields: numbers, strings, booleans, class
 * names, and lists. Objects of other kinds are omitted.
 *
 * @param path the checkpoint's path, for errors
 * @throws CheckpointError MTL_MEGATRON_CHECKPOINT if the checkpoint has no arguments
 */
export function megatronArguments(pickled: unknown, path: string): JsonFields {
  const isNamespace = pickled instanceof PickledObject && namespaces.has(pickled.path);
  const state = isNamespace ? pickled.state : pickled;
  if (!(state instanceof Map)) {
    throw megatronError(path, 'it contains no args, which state the architecture', {
      expected: 'args as Megatron-LM saves them, an argparse.Namespace',
      remedy: 'save it again with Megatron-LM, which writes its args',
    });
  }
  const values = [...(state as ReadonlyMap<unknown, unknown>)].flatMap(([name, value]) => {
    const plain = plainValue(value);
    return typeof name === 'string' && plain !== undefined ? [[name, plain] as const] : [];
  });
  return new JsonFields(`${path}: args`, Object.fromEntries(values), {
    code: 'MTL_MEGATRON_ARGUMENTS',
    remedy: 'convert a checkpoint of a GPT, a Llama or a BERT that Megatron-LM saved',
  });
}

/**
 * Returns the given value if it is a number, string, boolean, null or a list of these, or a class name if the
 * value is a class; undefined for any other value.
 */
function plainValue(value: unknown): unknown {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint') return Number(value);
  if (value instanceof PickledGlobal) return value.path;
  const isList = (type: 'number' | 'string'): boolean =>
    Array.isArray(value) && value.every((item) => typeof item === type);
  return isList('number') || isList('string') ? value : undefined;
}
