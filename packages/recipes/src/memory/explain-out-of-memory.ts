import type { PretrainingConfiguration } from '@mtl/configuration';
import { KernelError, MtlError } from '@mtl/errors';
import { memorySavings } from './memory-savings.js';
import { memoryShapeOf } from './memory-shape-of.js';

const moreProcesses =
  'more processes with a larger --tensor-model-parallel-size or --pipeline-model-parallel-size';

/**
 * An error of a training, with what helps where memory ran out: the flags that would take less, and the
 * command that says how much. Other errors come back as they are.
 */
export function explainOutOfMemory(error: unknown, configuration: PretrainingConfiguration): unknown {
  if (!MtlError.isInstance(error) || error.code !== 'MTL_OUT_OF_MEMORY') return error;
  const { worldSize } = configuration.parallel;
  // which flags there are does not go by the vocabulary
  const savings = memorySavings(memoryShapeOf(configuration, 1), worldSize).map(({ flags }) => flags);
  const model = configuration.kind === 'gpt' ? '' : ` --model ${configuration.kind}`;
  const command = `mtl plan${model} --num-processes ${worldSize} --memory GIB -- FLAGS`;
  return new KernelError(error.code, error.message, {
    remedy: `less take: ${[...savings, moreProcesses].join('; ')}. ${command} says how much, and what would fit`,
    details: error.details,
    cause: error,
  });
}
