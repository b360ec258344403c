import { ConfigurationError } from '@mtl/errors';
import type { FlagFragment } from '../flags/flag-values.js';
import type { ParallelConfiguration } from '../pretraining-configuration.js';
import { communicationFlags, deviceFlags, type FlagName, parallelFlags } from '../schema/flag-schema.js';
import { configureStrategies, flagsOfPassCommunication } from '../strategies/strategies.js';
import type { FlagsOf, ShardedModel } from '../strategies/strategy.js';
import type { FlagReader } from './flag-reader.js';

export interface ParallelConfigurationOptions {
  readonly flags: FlagReader;
  readonly model: ShardedModel;
  /** Number of processes of the run. */
  readonly worldSize: number;
  /** Collects messages for the user. */
  readonly notices: string[];
}

/**
 * Returns the layout in which the processes share model and data.
 *
 * @throws ConfigurationError `MTL_TENSOR_PARALLEL_SIZE`, `MTL_EXPERT_PARALLEL_SIZE`, `MTL_PIPELINE_SIZE`,
 *   `MTL_PIPELINE_LAYERS` or `MTL_WORLD_SIZE`, whose messages contain the nearest valid sizes;
 *   `MTL_SCHEDULE_CSV`, `MTL_FLAG_NEEDS`, `MTL_FLAG_CONFLICT`, `MTL_CUDA_GRAPHS`.
 */
export function parallelConfiguration(options: ParallelConfigurationOptions): ParallelConfiguration {
  const { flags, model, worldSize, notices } = options;
  flags.checkRelations(parallelFlags);
  const strategies = configureStrategies({
    // the reader has all flags, including flags of strategies, so the cast is right
    flags: flags as unknown as FlagsOf<FlagFragment>,
    model,
    worldSize,
    notices,
  });
  const cudaGraphs = readCudaGraphs(flags, notices);
  const device = flags.required('device');
  if (flags.required('allow-tf32') && device !== 'cuda')
    notices.push(`--allow-tf32 has no effect with --device ${device}`);
  const values = flags.values(deviceFlags);
  return {
    ...values,
    allowTf32: values.allowTf32 && device === 'cuda',
    cudaGraphs,
    worldSize,
    ...strategies,
    ...flags.values(communicationFlags),
  };
}

/**
 * Returns true if forward and backward passes are recorded as CUDA graphs.
 *
 * @throws ConfigurationError `MTL_CUDA_GRAPHS` if processes that share layers communicate within these passes
 */
function readCudaGraphs(flags: FlagReader, notices: string[]): boolean {
  if (!flags.required('cuda-graphs')) return false;
  const device = flags.required('device');
  if (device !== 'cuda') {
    notices.push(`--cuda-graphs has no effect with --device ${device}`);
    return false;
  }
  const name = (flagsOfPassCommunication as readonly FlagName[]).find((each) => Number(flags.get(each)) > 1);
  if (name === undefined) return true;
  const size = flags.get(name);
  const given = `--cuda-graphs with ${flags.written(name)}`;
  throw new ConfigurationError(
    'MTL_CUDA_GRAPHS',
    `${given}: passes contain communication, which cannot be recorded`,
    {
      expected: `--${name} 1; passes of data and pipeline parallelism are recorded`,
      remedy: `leave --cuda-graphs out, or split the model with --pipeline-model-parallel-size instead`,
      details: { flag: name, size },
    },
  );
}
