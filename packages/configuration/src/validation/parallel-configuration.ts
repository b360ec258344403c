import { readFileSync } from 'node:fs';
import { ConfigurationError, nearestDivisors, nearestMultiples } from '@mtl/errors';
import { parseScheduleCsv, scheduleNames } from '@mtl/pipeline/schedules';
import { isScheduleModule } from '../flags/check-schedule-of-file.js';
import type { FlagName } from '../flags/flag-schema.js';
import type { ModelConfiguration, ParallelConfiguration } from '../pretraining-configuration.js';
import type { FlagReader } from './flag-reader.js';
import { layerLayout } from './layer-layout.js';

/** What of a model must split evenly. */
export interface ShardedModel
  extends Pick<
    ModelConfiguration,
    | 'numLayers'
    | 'numAttentionHeads'
    | 'groupQueryAttention'
    | 'numQueryGroups'
    | 'ffnHiddenSize'
    | 'makeVocabSizeDivisibleBy'
  > {
  /** Absent where sequence parallelism shards packed samples, whatever their length. */
  readonly sequenceLength?: number | undefined;
}

export interface ParallelConfigurationOptions {
  readonly flags: FlagReader;
  readonly model: ShardedModel;
  /** Processes of the run. */
  readonly worldSize: number;
  /** Takes messages for the user. */
  readonly notices: string[];
}

/**
 * How the processes share model and data.
 *
 * @throws ConfigurationError `MTL_TENSOR_PARALLEL_SIZE`, `MTL_PIPELINE_SIZE`, `MTL_PIPELINE_LAYERS` or
 *   `MTL_WORLD_SIZE` with the nearest sizes that work; `MTL_SCHEDULE_CSV`, `MTL_FLAG_NEEDS`,
 *   `MTL_FLAG_CONFLICT`, `MTL_CUDA_GRAPHS`.
 */
export function parallelConfiguration(options: ParallelConfigurationOptions): ParallelConfiguration {
  const { flags, model, worldSize, notices } = options;
  const tensorModelParallelSize = flags.required('tensor-model-parallel-size');
  const pipelineModelParallelSize = flags.required('pipeline-model-parallel-size');
  checkTensorParallel(flags, model, tensorModelParallelSize);
  const schedule = scheduleOf(flags, model, pipelineModelParallelSize);
  const { numVirtualStages } = schedule;
  const microBatchGroupSize = flags.get('microbatch-group-size-per-virtual-pipeline-stage');
  const dataParallelSize = dataParallelSizeOf(worldSize, tensorModelParallelSize, pipelineModelParallelSize);
  const sequenceParallel = flags.required('sequence-parallel');
  if (sequenceParallel && tensorModelParallelSize === 1) {
    notices.push('--sequence-parallel has no effect with --tensor-model-parallel-size 1');
  }
  if (flags.isGiven('pipeline-schedule') && pipelineModelParallelSize === 1) {
    notices.push('--pipeline-schedule has no effect with --pipeline-model-parallel-size 1');
  }
  const distributed = ['use-distributed-optimizer', 'overlap-grad-reduce', 'overlap-param-gather'] as const;
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
  const isDryRun = flags.required('dry-run');
  if (flags.get('num-processes') !== undefined && !isDryRun)
    flags.needs('num-processes', '--dry-run', 'describes processes that are not started');
  const cudaGraphs = cudaGraphsOf(flags, notices);
  const device = flags.required('device');
  for (const name of ['allow-tf32', 'time-matmuls'] as const) {
    if (flags.required(name) && device !== 'cuda')
      notices.push(`--${name} has no effect with --device ${device}`);
  }
  const threads = flags.get('threads');
  return {
    device,
    allowTf32: flags.required('allow-tf32') && device === 'cuda',
    cudaGraphs,
    timesMatmuls: flags.required('time-matmuls') && device === 'cuda',
    ...(threads === undefined ? {} : { threads }),
    worldSize,
    tensorModelParallelSize,
    pipelineModelParallelSize,
    dataParallelSize,
    numVirtualStages,
    pipelineSchedule: schedule.name,
    ...(schedule.csv === undefined ? {} : { pipelineScheduleCsv: schedule.csv }),
    ...(schedule.module === undefined ? {} : { pipelineScheduleModule: schedule.module }),
    ...(microBatchGroupSize === undefined ? {} : { microBatchGroupSize }),
    layerLayout: layerLayout({
      flags,
      notices,
      numLayers: model.numLayers,
      numStages: pipelineModelParallelSize,
      numChunks: schedule.numChunks,
    }),
    sequenceParallel: sequenceParallel && tensorModelParallelSize > 1,
    useDistributedOptimizer: flags.required('use-distributed-optimizer'),
    overlapGradReduce: flags.required('overlap-grad-reduce'),
    overlapParamGather: flags.required('overlap-param-gather'),
    distributedTimeoutMinutes: flags.required('distributed-timeout-minutes'),
  };
}

/**
 * Whether passes are to be recorded.
 *
 * @throws ConfigurationError `MTL_CUDA_GRAPHS` where tensor parallelism communicates within passes
 */
function cudaGraphsOf(flags: FlagReader, notices: string[]): boolean {
  if (!flags.required('cuda-graphs')) return false;
  const device = flags.required('device');
  if (device !== 'cuda') {
    notices.push(`--cuda-graphs has no effect with --device ${device}`);
    return false;
  }
  const name = 'tensor-model-parallel-size';
  const size = flags.required(name);
  if (size === 1) return true;
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

/** Every tensor that is split must split evenly. */
function checkTensorParallel(flags: FlagReader, model: ShardedModel, size: number): void {
  const split: ReadonlyArray<readonly [FlagName, number]> = [
    ['num-attention-heads', model.numAttentionHeads],
    ...(model.groupQueryAttention ? ([['num-query-groups', model.numQueryGroups ?? 1]] as const) : []),
    ['ffn-hidden-size', model.ffnHiddenSize],
    ['make-vocab-size-divisible-by', model.makeVocabSizeDivisibleBy],
    ...(flags.required('sequence-parallel') && model.sequenceLength !== undefined
      ? ([['seq-length', model.sequenceLength]] as const)
      : []),
  ];
  for (const [name, total] of split) {
    if (total % size === 0) continue;
    // What divides all of them, not just this one: taking the advice must not lead to the next error.
    const common = split.map(([, value]) => value).reduce(greatestCommonDivisor);
    const nearest = nearestDivisors(common, size);
    const others = split.filter(([other]) => other !== 'make-vocab-size-divisible-by');
    const isPadding = others.every(([, value]) => value % size === 0);
    const paddings = isPadding && !flags.isLoaded(name) ? paddingsFor(total, size) : [];
    throw new ConfigurationError(
      'MTL_TENSOR_PARALLEL_SIZE',
      `${flags.written('tensor-model-parallel-size')} does not divide --${name} ${total}`,
      {
        expected:
          nearest.join(' or ') +
          (paddings.length === 0
            ? ''
            : `, or --${name} ${paddings.join(', ')} or another multiple of ${size}`),
        remedy:
          `pass --tensor-model-parallel-size ${nearest.at(0)}` +
          (paddings.length === 0 ? '' : `, or --${name} ${paddings.at(-1)}`),
        details: { size, flag: name, total, nearest, paddings },
      },
    );
  }
}

/**
 * Numbers of rows that the ranks can share to pad a vocabulary to: nearest ones, and a multiple of the old
 * one.
 */
function paddingsFor(total: number, size: number): readonly number[] {
  const both = (total * size) / greatestCommonDivisor(total, size);
  return [...new Set([...nearestMultiples(size, total), both])];
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

interface Schedule {
  readonly name: string;
  /** The text of a file. */
  readonly csv?: string | undefined;
  /** The path of a module. */
  readonly module?: string | undefined;
  readonly numVirtualStages: number;
  /** Model chunks on all stages. */
  readonly numChunks: number;
}

/** The schedule that the flags name or imply, and the chunks per stage that it has. */
function scheduleOf(flags: FlagReader, model: ShardedModel, numStages: number): Schedule {
  const name = flags.get('pipeline-schedule');
  const numChunks = chunksPerStage(flags, model, numStages);
  if (numStages > 1 && name !== undefined && isScheduleModule(name)) {
    const numVirtualStages = numChunks ?? 1;
    return { name, module: name, numVirtualStages, numChunks: numStages * numVirtualStages };
  }
  if (numStages > 1 && name !== undefined && /\.csv$|[/\\]/.test(name)) {
    const csv = readScheduleFile(flags.written('pipeline-schedule'), name);
    const { placement } = parseScheduleCsv(csv, { name });
    const perStage = placement.map((stage) => placement.filter((other) => other === stage).length);
    const numVirtualStages = Math.max(...perStage);
    if (numChunks !== undefined && numChunks !== numVirtualStages) {
      flags.conflict({
        flags: ['pipeline-schedule', chunkFlag(flags)],
        why: `the file has ${numVirtualStages} chunks per stage`,
      });
    }
    return { name, csv, numVirtualStages, numChunks: placement.length };
  }
  if (name === 'interleaved' && numChunks === undefined && numStages > 1) {
    flags.needs(
      'pipeline-schedule',
      '--num-layers-per-virtual-pipeline-stage',
      'needs several chunks of layers per stage',
    );
  }
  const numVirtualStages = numChunks ?? (name === 'zb-v' && numStages > 1 ? 2 : 1);
  return {
    name: name ?? (numVirtualStages > 1 ? 'interleaved' : '1f1b'),
    numVirtualStages,
    numChunks: numStages * numVirtualStages,
  };
}

function readScheduleFile(written: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new ConfigurationError('MTL_SCHEDULE_CSV', `${written}: ${(error as Error).message}`, {
      expected: `a schedule file (.csv, or a module: .mjs), or one of ${scheduleNames.join(', ')}`,
      cause: error,
    });
  }
}

const chunkFlags = ['num-layers-per-virtual-pipeline-stage', 'num-virtual-stages-per-pipeline-rank'] as const;

/** The flag that sets how many chunks a stage has. */
function chunkFlag(flags: FlagReader): (typeof chunkFlags)[number] {
  return chunkFlags.find((name) => flags.get(name) !== undefined) ?? chunkFlags[0];
}

/** Chunks of layers per stage, where a flag sets them. */
function chunksPerStage(flags: FlagReader, model: ShardedModel, numStages: number): number | undefined {
  const [layersPerChunk, numChunks] = chunkFlags.map((name) => flags.get(name));
  if (layersPerChunk !== undefined && numChunks !== undefined) {
    flags.conflict({ flags: chunkFlags, why: 'both set how many chunks a stage has' });
  }
  if (layersPerChunk === undefined && (numChunks === undefined || numChunks === 1)) return numChunks;
  if (numStages === 1) {
    flags.needs(
      chunkFlag(flags),
      '--pipeline-model-parallel-size of 2 or more',
      'has no pipeline to interleave',
    );
  }
  if (layersPerChunk === undefined) return numChunks;
  const perRound = numStages * layersPerChunk;
  if (model.numLayers % perRound === 0) return model.numLayers / perRound;
  const layersPerStage = Math.floor(model.numLayers / numStages);
  const nearest = nearestDivisors(layersPerStage, layersPerChunk);
  const isEven = model.numLayers % numStages === 0;
  throw new ConfigurationError(
    'MTL_PIPELINE_SIZE',
    isEven
      ? `${flags.written('num-layers-per-virtual-pipeline-stage')} does not divide the ${layersPerStage} layers of a stage`
      : `${flags.written('num-layers-per-virtual-pipeline-stage')}: ${numStages} stages do not divide ${flags.written('num-layers')}`,
    isEven
      ? {
          expected: nearest.join(' or '),
          remedy: `pass --num-layers-per-virtual-pipeline-stage ${nearest.at(0)}`,
        }
      : {
          expected: 'stages of the same number of layers',
          remedy: 'pass --num-virtual-stages-per-pipeline-rank, which cuts any number of layers',
        },
  );
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
