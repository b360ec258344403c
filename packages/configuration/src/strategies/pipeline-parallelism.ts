import { readFileSync } from 'node:fs';
import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import { type LayerLayout, partitionLayers } from '@mtl/models';
import { parseScheduleCsv, type ScheduleNameOrOther, scheduleNames } from '@mtl/pipeline/schedules';
import { count, text } from '../flags/flag-kinds.js';
import { type FlagValues, withoutUndefined } from '../flags/flag-values.js';
import { type FlagsOf, listDivisors, type ShardedModel, strategy } from './strategy.js';

/**
 * Returns true if the value of --pipeline-schedule is the path of a module. The program runs the code of the
 * module.
 */
export function isScheduleModule(name: string): boolean {
  return /\.[cm]?js$/.test(name);
}

const layerFlags = {
  'pipeline-model-parallel-layout': text(
    'Layers of each chunk: even, balanced (by work, embedding and loss included), or written as in "Ettt|ttt|tL".',
    { placeholder: 'LAYOUT', defaultText: 'even, or balanced where that does not work out' },
  ),
  'decoder-first-pipeline-num-layers': count('Layers of the first stage; the others share the rest evenly.'),
  'decoder-last-pipeline-num-layers': count('Layers of the last stage; the others share the rest evenly.'),
};

export interface LayerLayoutOptions {
  readonly flags: FlagsOf<typeof layerFlags>;
  readonly numLayers: number;
  readonly numStages: number;
  /** How many model chunks all stages have together. */
  readonly numChunks: number;
  /** Collects messages for the user. */
  readonly notices: string[];
}

/**
 * Splits the layers into the chunks of the pipeline: by --pipeline-model-parallel-layout, or by
 * --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers. Without these flags, the split
 * is even if the number of chunks divides the number of layers, and balanced by cost otherwise.
 *
 * @throws ConfigurationError `MTL_PIPELINE_LAYERS`, `MTL_FLAG_CONFLICT`, `MTL_FLAG_NEEDS`
 */
function layerLayout(options: LayerLayoutOptions): LayerLayout {
  const { numLayers, numChunks } = options;
  const layout = chooseLayout(options);
  // this call only checks that a split is possible; the result does not depend on costs, so all costs are 0
  partitionLayers({ numLayers, numChunks, layout, work: { embedding: 0, head: 0 } });
  return layout;
}

function chooseLayout(options: LayerLayoutOptions): LayerLayout {
  const { flags, numLayers, numStages, numChunks, notices } = options;
  const layout = flags.get('pipeline-model-parallel-layout');
  const ends = (['decoder-first-pipeline-num-layers', 'decoder-last-pipeline-num-layers'] as const).filter(
    (name) => flags.get(name) !== undefined,
  );
  if (numStages === 1) {
    const given = layout === undefined ? ends : (['pipeline-model-parallel-layout', ...ends] as const);
    for (const name of given) notices.push(`--${name} has no effect with --pipeline-model-parallel-size 1`);
    return 'even';
  }
  if (layout !== undefined && ends[0] !== undefined) {
    flags.conflict({
      flags: ['pipeline-model-parallel-layout', ends[0]],
      why: 'both set how many layers a stage has',
    });
  }
  if (layout === 'even' || layout === 'balanced') return layout;
  if (layout !== undefined) return readLayout(flags.written('pipeline-model-parallel-layout'), layout);
  if (ends[0] !== undefined) {
    if (numChunks !== numStages) {
      flags.needs(ends[0], '--pipeline-model-parallel-layout', 'counts the layers of a stage of one chunk');
    }
    return numbersByEnds(options);
  }
  return numLayers % numChunks === 0 ? 'even' : 'balanced';
}

/**
 * Returns how many layers each stage has. Layers are divided evenly among the stages for which no flag gives
 * a number.
 */
function numbersByEnds({ flags, numLayers, numStages }: LayerLayoutOptions): number[] {
  const first = flags.get('decoder-first-pipeline-num-layers');
  const last = flags.get('decoder-last-pipeline-num-layers');
  const numOthers = numStages - (first === undefined ? 0 : 1) - (last === undefined ? 0 : 1);
  const rest = numLayers - (first ?? 0) - (last ?? 0);
  const isEven = numOthers === 0 ? rest === 0 : rest > 0 && rest % numOthers === 0;
  if (!isEven) {
    const asked = (['decoder-first-pipeline-num-layers', 'decoder-last-pipeline-num-layers'] as const)
      .filter((name) => flags.get(name) !== undefined)
      .map((name) => flags.written(name));
    throw new ConfigurationError(
      'MTL_PIPELINE_LAYERS',
      `${asked.join(' and ')}: ${rest} of ${numLayers} layers are left for ${numOthers} other stages`,
      {
        expected: numOthers === 0 ? `a sum of ${numLayers}` : `a multiple of ${numOthers} to be left`,
        remedy: 'or name every stage with --pipeline-model-parallel-layout',
      },
    );
  }
  const others = new Array<number>(numOthers).fill(rest / numOthers);
  return [...(first === undefined ? [] : [first]), ...others, ...(last === undefined ? [] : [last])];
}

/**
 * Parses Megatron-LM's notation: bars separate stages, `t` is a layer, `E` the embedding, and `L` the loss;
 * `x*N` and `(x)*N` repeat x; commas are ignored. For example, `Ett|(ttt|)*2tL` means stages of 2, 3, 3 and 1
 * layers.
 */
function readLayout(written: string, layout: string): readonly number[] {
  const refuse = (why: string): never => {
    throw new ConfigurationError('MTL_PIPELINE_LAYERS', `${written}: ${why}`, {
      expected:
        'even, balanced, or stages between bars such as "Ettt|ttt|tL": t a layer, E embedding, L loss',
    });
  };
  let text = layout.replaceAll(',', '').replaceAll(/\s/g, '');
  const repeat = (pattern: RegExp): void => {
    text = text.replaceAll(pattern, (_, part: string, times: string) => {
      const isLong = Number(times) * part.length > 10_000;
      return isLong ? refuse(`${times} times ${part} is too long`) : part.repeat(Number(times));
    });
  };
  repeat(/\(([^()]*)\)\*(\d+)/g);
  repeat(/([EtL|])\*(\d+)/g);
  const unknown = /[^EtL|]/.exec(text)?.[0];
  if (unknown !== undefined) refuse(`${JSON.stringify(unknown)} is no part of a GPT`);
  const stages = text.split('|');
  stages.forEach((stage, index) => {
    const isFirst = index === 0;
    const isLast = index === stages.length - 1;
    if (stage.includes('E') && !(isFirst && stage.lastIndexOf('E') === 0))
      refuse('the first stage begins with the E');
    if (stage.includes('L') && !(isLast && stage.indexOf('L') === stage.length - 1))
      refuse('the last stage ends with the L');
    if (!stage.includes('t')) refuse(`stage ${index + 1} has no layer`);
  });
  return stages.map((stage) => stage.replaceAll(/[EL]/g, '').length);
}

export interface LayersOfPipeline {
  readonly layerLayout: LayerLayout;
}

const flags = {
  'pipeline-model-parallel-size': count('Pipeline stages.', { default: 1 }),
  'num-layers-per-virtual-pipeline-stage': count('Layers per model chunk; each stage has several chunks.', {
    excludes: { 'num-virtual-stages-per-pipeline-rank': 'both set how many chunks a stage has' },
  }),
  'num-virtual-stages-per-pipeline-rank': count(
    'Chunks of the model on each stage, instead of their layers.',
    { defaultText: '1, or what the schedule has' },
  ),
  'microbatch-group-size-per-virtual-pipeline-stage': count(
    'Micro-batches that the interleaved schedule sends through one chunk before it goes to the next.',
    { defaultText: '--pipeline-model-parallel-size' },
  ),
  'pipeline-schedule': text(
    `Order of forward and backward passes over the stages: ${scheduleNames.join(', ')}, a CSV file, or a JavaScript module that exports a function.`,
    { placeholder: 'NAME|FILE', defaultText: '1f1b, or interleaved with several chunks per stage' },
  ),
  ...layerFlags,
};

export interface PipelineParallelConfiguration extends FlagValues<typeof flags> {
  /**
   * The number of model chunks on a stage. If the stages of a schedule file have different numbers of chunks,
   * this is the largest number.
   */
  readonly numVirtualStages: number;
  /** The name of a schedule, or the path of a file or module. */
  readonly pipelineSchedule: ScheduleNameOrOther;
  /** The contents of the schedule file, if a flag names one. */
  readonly pipelineScheduleCsv?: string;
  /** The path of the module whose function makes schedules, if a flag names one. */
  readonly pipelineScheduleModule?: string;
}

export type PipelineFlags = FlagsOf<typeof flags>;

/**
 * Pipeline parallelism: each stage has consecutive layers, and micro-batches move from stage to stage
 * (Narayanan et al. 2021).
 */
export const pipelineParallelism = strategy<typeof flags, PipelineParallelConfiguration, LayersOfPipeline>({
  flags,
  axes: [
    {
      name: 'pp',
      flag: 'pipeline-model-parallel-size',
      field: 'pipelineModelParallelSize',
      search: ({ rest }) => ({ sizes: listDivisors(rest), fits: (size) => rest % size === 0 }),
    },
  ],
  countsAs: 'pp',
  sharing: {
    help: { 'pipeline-model-parallel-size': 'Pipeline stages.' },
    configure: ({ 'pipeline-model-parallel-size': size = 1 }) => ({ pipelineModelParallelSize: size }),
  },
  configure: ({ flags: given, model, notices }) => {
    const numStages = given.required('pipeline-model-parallel-size');
    const schedule = chooseSchedule(given, model, numStages);
    if (given.isGiven('pipeline-schedule') && numStages === 1) {
      notices.push('--pipeline-schedule has no effect with --pipeline-model-parallel-size 1');
    }
    return {
      pipelineModelParallelSize: numStages,
      numVirtualStages: schedule.numVirtualStages,
      pipelineSchedule: schedule.name,
      ...withoutUndefined({
        pipelineScheduleCsv: schedule.csv,
        pipelineScheduleModule: schedule.module,
        microBatchGroupSize: given.get('microbatch-group-size-per-virtual-pipeline-stage'),
      }),
    };
  },
  complete: (configured, { flags: given, model, notices }) => {
    const { numLayers } = model;
    const { pipelineModelParallelSize: numStages, pipelineScheduleCsv: csv } = configured;
    const numChunks =
      csv === undefined
        ? numStages * configured.numVirtualStages
        : parseScheduleCsv(csv, { name: configured.pipelineSchedule }).placement.length;
    return { layerLayout: layerLayout({ flags: given, notices, numLayers, numStages, numChunks }) };
  },
  groups: ({ ends }) => ({ pp: ['pp'], embedding: { axes: ['pp'], stages: ends } }),
});

interface Schedule {
  readonly name: string;
  /** The contents of the schedule file. */
  readonly csv?: string | undefined;
  /** The path of the schedule module. */
  readonly module?: string | undefined;
  readonly numVirtualStages: number;
}

/** Returns the schedule that the flags name or imply, and its number of chunks per stage. */
function chooseSchedule(flags: PipelineFlags, model: ShardedModel, numStages: number): Schedule {
  const name = flags.get('pipeline-schedule');
  const numChunks = chunksPerStage(flags, model, numStages);
  if (numStages > 1 && name !== undefined && isScheduleModule(name)) {
    return { name, module: name, numVirtualStages: numChunks ?? 1 };
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
    return { name, csv, numVirtualStages };
  }
  if (name === 'interleaved' && numChunks === undefined && numStages > 1) {
    flags.needs(
      'pipeline-schedule',
      '--num-layers-per-virtual-pipeline-stage',
      'needs several chunks of layers per stage',
    );
  }
  const numVirtualStages = numChunks ?? (name === 'zb-v' && numStages > 1 ? 2 : 1);
  return { name: name ?? (numVirtualStages > 1 ? 'interleaved' : '1f1b'), numVirtualStages };
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

/** Returns the flag that sets the number of chunks on a stage. */
function chunkFlag(flags: PipelineFlags): (typeof chunkFlags)[number] {
  return chunkFlags.find((name) => flags.get(name) !== undefined) ?? chunkFlags[0];
}

/** Returns the number of chunks per stage, if a flag sets it. */
function chunksPerStage(flags: PipelineFlags, model: ShardedModel, numStages: number): number | undefined {
  const [layersPerChunk, numChunks] = chunkFlags.map((name) => flags.get(name));
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
