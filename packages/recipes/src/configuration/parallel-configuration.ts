import { ConfigurationError } from '@mtl/errors';
import type { FlagName } from '../flags/flag-schema.js';
import type { ModelConfiguration, ParallelConfiguration } from '../gpt-configuration.js';
import type { FlagReader } from './flag-reader.js';
import { nearestDivisors } from './nearest-values.js';

export interface ParallelConfigurationOptions {
  readonly flags: FlagReader;
  readonly model: ModelConfiguration;
  /** Processes of the run. */
  readonly worldSize: number;
  /** Takes what is to be said. */
  readonly notices: string[];
}

/**
 * How the processes share model and data.
 *
 * @throws ConfigurationError `MTL_TENSOR_PARALLEL_SIZE`, `MTL_PIPELINE_SIZE` or `MTL_WORLD_SIZE` with the nearest
 *   sizes that work; `MTL_FLAG_NEEDS`, `MTL_FLAG_CONFLICT`.
 */
export function parallelConfiguration(options: ParallelConfigurationOptions): ParallelConfiguration {
  const { flags, model, worldSize, notices } = options;
  const tensorModelParallelSize = flags.required('tensor-model-parallel-size');
  const pipelineModelParallelSize = flags.required('pipeline-model-parallel-size');
  checkTensorParallel(flags, model, tensorModelParallelSize);
  const numVirtualStages = virtualStages(flags, model, pipelineModelParallelSize);
  const dataParallelSize = dataParallelSizeOf(worldSize, tensorModelParallelSize, pipelineModelParallelSize);
  const sequenceParallel = flags.required('sequence-parallel');
  if (sequenceParallel && tensorModelParallelSize === 1) {
    notices.push('--sequence-parallel has no effect with --tensor-model-parallel-size 1');
  }
  if (flags.isGiven('pipeline-schedule') && pipelineModelParallelSize === 1) {
    notices.push('--pipeline-schedule has no effect with --pipeline-model-parallel-size 1');
  }
  const distributed = ['use-distributed-optimizer', 'overlap-grad-reduce'] as const;
  for (const name of distributed) {
    if (flags.required(name) && dataParallelSize === 1) {
      notices.push(`--${name} has no effect with one data-parallel rank`);
    }
  }
  if (flags.required('overlap-param-gather') && !flags.required('use-distributed-optimizer')) {
    flags.needs(
      'overlap-param-gather',
      '--use-distributed-optimizer',
      'has parameters to gather only when they are split',
    );
  }
  const threads = flags.get('threads');
  return {
    device: flags.required('device'),
    ...(threads === undefined ? {} : { threads }),
    worldSize,
    tensorModelParallelSize,
    pipelineModelParallelSize,
    dataParallelSize,
    numVirtualStages,
    pipelineSchedule: pipelineSchedule(flags, numVirtualStages),
    sequenceParallel: sequenceParallel && tensorModelParallelSize > 1,
    useDistributedOptimizer: flags.required('use-distributed-optimizer'),
    overlapGradReduce: flags.required('overlap-grad-reduce'),
    overlapParamGather: flags.required('overlap-param-gather'),
    distributedTimeoutMinutes: flags.required('distributed-timeout-minutes'),
  };
}

/** Every tensor that is split must split evenly. */
function checkTensorParallel(flags: FlagReader, model: ModelConfiguration, size: number): void {
  const split: ReadonlyArray<readonly [FlagName, number]> = [
    ['num-attention-heads', model.numAttentionHeads],
    ['ffn-hidden-size', model.ffnHiddenSize],
    ['make-vocab-size-divisible-by', model.makeVocabSizeDivisibleBy],
    ...(flags.required('sequence-parallel') ? ([['seq-length', model.sequenceLength]] as const) : []),
  ];
  for (const [name, total] of split) {
    if (total % size === 0) continue;
    // What divides all of them, not just this one: taking the advice must not lead to the next error.
    const common = split.map(([, value]) => value).reduce(greatestCommonDivisor);
    const nearest = nearestDivisors(common, size);
    throw new ConfigurationError(
      'MTL_TENSOR_PARALLEL_SIZE',
      `${flags.written('tensor-model-parallel-size')} does not divide --${name} ${total}`,
      {
        expected: nearest.join(' or '),
        remedy: `pass --tensor-model-parallel-size ${nearest.at(0)}`,
        details: { size, flag: name, total, nearest },
      },
    );
  }
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/** Chunks of layers per stage. */
function virtualStages(flags: FlagReader, model: ModelConfiguration, stages: number): number {
  if (model.numLayers % stages !== 0) {
    const nearest = nearestDivisors(model.numLayers, stages);
    throw new ConfigurationError(
      'MTL_PIPELINE_SIZE',
      `${flags.written('pipeline-model-parallel-size')} does not divide ${flags.written('num-layers')}`,
      { expected: nearest.join(' or '), remedy: `pass --pipeline-model-parallel-size ${nearest.at(0)}` },
    );
  }
  const layersPerChunk = flags.get('num-layers-per-virtual-pipeline-stage');
  if (layersPerChunk === undefined) return 1;
  if (stages === 1) {
    flags.needs(
      'num-layers-per-virtual-pipeline-stage',
      '--pipeline-model-parallel-size of 2 or more',
      'has no pipeline to interleave',
    );
  }
  const layersPerStage = model.numLayers / stages;
  if (layersPerStage % layersPerChunk !== 0) {
    const nearest = nearestDivisors(layersPerStage, layersPerChunk);
    throw new ConfigurationError(
      'MTL_PIPELINE_SIZE',
      `${flags.written('num-layers-per-virtual-pipeline-stage')} does not divide the ${layersPerStage} layers of a stage`,
      {
        expected: nearest.join(' or '),
        remedy: `pass --num-layers-per-virtual-pipeline-stage ${nearest.at(0)}`,
      },
    );
  }
  return layersPerStage / layersPerChunk;
}

function pipelineSchedule(
  flags: FlagReader,
  numVirtualStages: number,
): ParallelConfiguration['pipelineSchedule'] {
  const schedule = flags.get('pipeline-schedule');
  if (schedule === undefined) return numVirtualStages > 1 ? 'interleaved' : '1f1b';
  if (schedule === 'interleaved' && numVirtualStages === 1) {
    flags.needs(
      'pipeline-schedule',
      '--num-layers-per-virtual-pipeline-stage',
      'needs several chunks of layers per stage',
    );
  }
  if (schedule !== 'interleaved' && numVirtualStages > 1) {
    flags.conflict({
      flags: ['pipeline-schedule', 'num-layers-per-virtual-pipeline-stage'],
      why: 'only the interleaved schedule has several chunks per stage',
    });
  }
  return schedule;
}

function dataParallelSizeOf(worldSize: number, tensor: number, pipeline: number): number {
  const modelParallelSize = tensor * pipeline;
  if (worldSize % modelParallelSize === 0) return worldSize / modelParallelSize;
  throw new ConfigurationError(
    'MTL_WORLD_SIZE',
    `${worldSize === 1 ? '1 process is' : `${worldSize} processes are`} running, but tensor x pipeline parallelism is ` +
      `${tensor} x ${pipeline} = ${modelParallelSize}`,
    {
      expected: `a multiple of ${modelParallelSize} processes`,
      remedy: `start as many with npx mtl run --nproc-per-node ${modelParallelSize}, or choose smaller sizes`,
      details: { worldSize, tensor, pipeline },
    },
  );
}
