import type { Parameter } from '@mtl/autograd';
import type {
  OptimizerConfiguration,
  ParallelConfiguration,
  TrainingConfiguration,
} from '@mtl/configuration';
import type { Device, DType } from '@mtl/kernels';
import { AdamwOptimizer, type ModelOptimizer, ParameterBuffers } from '@mtl/optimizer';
import type { TrainingProcesses } from './training-processes.js';

/** What of a configuration the optimizer follows from. */
export interface OptimizedConfiguration {
  readonly optimizer: Pick<
    OptimizerConfiguration,
    'adamBeta1' | 'adamBeta2' | 'adamEpsilon' | 'weightDecay' | 'clipGrad'
  >;
  readonly parallel: Pick<
    ParallelConfiguration,
    'dataParallelSize' | 'useDistributedOptimizer' | 'overlapGradReduce' | 'overlapParamGather'
  >;
  readonly training: Pick<TrainingConfiguration, 'seed'>;
}

export interface TrainingOptimizerOptions {
  readonly configuration: OptimizedConfiguration;
  readonly parameters: readonly Parameter[];
  /** The parameters of each chunk of this rank. */
  readonly chunks: ReadonlyMap<number, readonly Parameter[]>;
  readonly processes: TrainingProcesses;
  readonly device: Device;
  readonly dtype: DType;
  /** Default true; false where every weight is loaded before it is read. */
  readonly initializes?: boolean;
}

/** Memory of the parameters with their initial values, and the optimizer that the flags describe. */
export function trainingOptimizer(options: TrainingOptimizerOptions): ModelOptimizer {
  const { parameters, chunks, processes, device, dtype, initializes = true } = options;
  const { optimizer, parallel, training } = options.configuration;
  const buffers = new ParameterBuffers(parameters, {
    device,
    dtype,
    sharing: {
      rank: processes.coordinates.dp,
      size: parallel.dataParallelSize,
      distributed: parallel.useDistributedOptimizer && parallel.dataParallelSize > 1,
    },
  });
  if (initializes) buffers.initialize(training.seed);
  return new AdamwOptimizer(buffers, {
    beta1: optimizer.adamBeta1,
    beta2: optimizer.adamBeta2,
    epsilon: optimizer.adamEpsilon,
    weightDecay: optimizer.weightDecay,
    clipGradient: optimizer.clipGrad,
    groups: processes.groups,
    chunks,
    overlapGradientReduction: parallel.overlapGradReduce,
    overlapParameterGather: parallel.overlapParamGather,
  });
}
