import { KernelError, MtlError } from '@mtl/errors';
import type { PretrainingConfiguration } from '../pretraining-configuration.js';

/** What makes a training take less memory: the parts of its configuration that decide. */
export type MemoryConfiguration = Pick<PretrainingConfiguration, 'kind'> & {
  readonly training: Pick<PretrainingConfiguration['training'], 'microBatchSize' | 'precision' | 'recompute'>;
  readonly parallel: Pick<
    PretrainingConfiguration['parallel'],
    | 'worldSize'
    | 'tensorModelParallelSize'
    | 'dataParallelSize'
    | 'sequenceParallel'
    | 'useDistributedOptimizer'
  >;
};

/**
 * An error of a training, with what helps where memory ran out: the flags that would take less, and the
 * command that says how much. Other errors come back as they are.
 */
export function explainOutOfMemory(error: unknown, configuration: MemoryConfiguration): unknown {
  if (!MtlError.isInstance(error) || error.code !== 'MTL_OUT_OF_MEMORY') return error;
  const model = configuration.kind === 'gpt' ? '' : ` --model ${configuration.kind}`;
  const command = `mtl plan${model} --num-processes ${configuration.parallel.worldSize} --memory GIB -- FLAGS`;
  return new KernelError(error.code, error.message, {
    remedy: `less take: ${savings(configuration).join('; ')}. ${command} says how much, and what would fit`,
    details: error.details,
    cause: error,
  });
}

/** The cheapest in time first; what is passed already is left out. */
function savings({ training, parallel }: MemoryConfiguration): readonly string[] {
  const { microBatchSize, precision, recompute } = training;
  const { tensorModelParallelSize, dataParallelSize, sequenceParallel, useDistributedOptimizer } = parallel;
  return [
    ...(dataParallelSize > 1 && !useDistributedOptimizer ? ['--use-distributed-optimizer'] : []),
    ...(tensorModelParallelSize > 1 && !sequenceParallel ? ['--sequence-parallel'] : []),
    ...(precision === 'fp32' ? ['--bf16'] : []),
    ...(microBatchSize > 1 ? [`--micro-batch-size 1 (it is ${microBatchSize})`] : []),
    ...(recompute.granularity === 'none' ? ['--recompute-granularity selective'] : []),
    ...(recompute.granularity === 'full'
      ? []
      : ['--recompute-granularity full --recompute-method uniform --recompute-num-layers 1']),
    'more processes with a larger --tensor-model-parallel-size or --pipeline-model-parallel-size',
  ];
}
