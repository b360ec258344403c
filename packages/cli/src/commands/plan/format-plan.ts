import type { PretrainingConfiguration } from '@mtl/configuration';
import { layoutText, scheduleOfStep, switchesThatSave } from '@mtl/configuration/strategies';
import type { Profile, StepBreakdown } from '@mtl/cost-model';
import { axisFacts, communicationParts } from '@mtl/layout';
import type { PlannedRanks, RunPlan } from '@mtl/planning';
import { wholeMemory } from '@mtl/planning/internal';
import { formatBytes, formatDuration } from '@mtl/trainer';
import { formatTable, wrapText } from '../../terminal/report-text.js';

export interface FormatPlanOptions {
  readonly configuration: PretrainingConfiguration;
  readonly profile: Profile;
  /** True if flags determine the length of the training run. */
  readonly isTrainingKnown: boolean;
}

const remedy =
  'remedy: try --search, which finds the layouts that fit; or ' +
  ['more processes', ...switchesThatSave.map((flag) => `--${flag}`)].join(', ') +
  ', a smaller --micro-batch-size, --recompute-granularity selective';

const legend = `memory: of the fullest rank, by kind and by pipeline stage
step: time of one iteration and model FLOPs per second; below it the parts, the largest first
exposed: communication that no computation hides; bubble: ranks wait for other pipeline stages
utilisation: model FLOPs by the peak of the hardware, with attention in full or its causal half
`;

const legendOfExperts =
  'active: the parameters that a token uses; model FLOPs count these, memory counts all\n';

/** Formats a plan as a table of at most `reportColumns` columns, with explanations of the terms. */
export function formatPlan(plan: RunPlan, options: FormatPlanOptions): string {
  const { teraflopsPerGpu, utilization, iterationSeconds } = plan;
  const fullest = plan.ranks.reduce((most, each) => (wholeMemory(each) > wholeMemory(most) ? each : most));
  const fits = plan.fits ? 'fits into' : 'does not fit into';
  return [
    title(plan, options),
    formatTable([
      ['memory', `${fits} ${formatBytes(plan.capacityBytes)}: at most ${formatBytes(wholeMemory(fullest))}`],
      ['  by kind', formatKinds(fullest)],
      ...memoryLines(plan.ranks),
      ...(plan.unevenMemoryBytes === undefined
        ? []
        : ([
            [
              '  uneven routing',
              `up to ${formatBytes(plan.unevenMemoryBytes)}, if all tokens chose the experts of one rank`,
            ],
          ] as const)),
      ['step', `${formatSeconds(iterationSeconds)}, ${formatRate(teraflopsPerGpu)}`],
      [
        'utilisation',
        `${percent(utilization.full)} with attention in full, ${percent(utilization.causal)} with its causal half`,
      ],
      ...listParts(plan),
      ...trafficLines(plan),
      ...(options.isTrainingKnown
        ? ([
            [
              'training',
              `${formatDuration(1000 * plan.trainingSeconds)}, evaluation and checkpoints not counted`,
            ],
          ] as const)
        : []),
    ]),
    ...(plan.fits ? [] : [`  ${wrapText(remedy, { indent: '    ', taken: 2 })}\n`]),
    `\n${legend}`,
    ...(plan.numActiveParameters === undefined ? [] : [legendOfExperts]),
  ].join('');
}

function title(
  { numParameters, numActiveParameters }: RunPlan,
  { configuration, profile }: FormatPlanOptions,
): string {
  const { parallel, training } = configuration;
  const { numMicroBatches, microBatchSize } = training;
  const schedule =
    parallel.pipelineModelParallelSize === 1
      ? ''
      : `, schedule ${scheduleOfStep(parallel, numMicroBatches).name}`;
  const machine = `${parallel.worldSize} x ${profile.name} (${profile.hardware.state})`;
  const layout = `${layoutText(parallel)}${schedule}, ${numMicroBatches} micro-batches of ${microBatchSize}`;
  const active =
    numActiveParameters === undefined ? '' : `, ${formatCount(numActiveParameters)} of them active,`;
  return `${wrapText(`${formatCount(numParameters)} parameters${active} on ${machine}`)}\n${wrapText(layout)}\n`;
}

/** Formats the compute rate per GPU or, below 1 TFLOP/s, per process on CPU cores. */
function formatRate(teraflops: number): string {
  return teraflops < 1
    ? `${(1000 * teraflops).toFixed(1)} GFLOP/s per process`
    : `${teraflops.toFixed(1)} TFLOP/s per GPU`;
}

function formatCount(count: number): string {
  for (const [size, unit] of [
    [1e12, 'T'],
    [1e9, 'B'],
    [1e6, 'M'],
  ] as const) {
    if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  }
  return `${count}`;
}

function formatKinds({ memoryByKind, memoryOfLibraries }: PlannedRanks): string {
  return [...Object.entries(memoryByKind), ...libraryKinds(memoryOfLibraries)]
    .map(([kind, bytes]) => `${kind} ${formatBytes(bytes)}`)
    .join(', ');
}

/** Returns the memory that libraries take outside of the allocator. A single process has no communicators. */
function libraryKinds(memory: PlannedRanks['memoryOfLibraries']): [string, number][] {
  if (memory === undefined) return [];
  const { matmulWorkspace, communicators } = memory;
  return [
    ['matmul workspace', matmulWorkspace],
    ...(communicators > 0 ? [['communicators', communicators] satisfies [string, number]] : []),
  ];
}

/**
 * The maximum number of lines. If there are more stages, all stages between the first and the last share one
 * line.
 */
const mostLines = 4;

/**
 * Returns lines with the memory that each pipeline stage needs; consecutive stages with equal memory share a
 * line.
 */
function memoryLines(ranks: readonly PlannedRanks[]): [string, string][] {
  const memory = new Map<number, number>();
  for (const each of ranks) {
    for (const stage of each.stages) {
      memory.set(stage, Math.max(memory.get(stage) ?? 0, wholeMemory(each)));
    }
  }
  if (memory.size === 1) return [];
  const stages = [...memory].sort(([a], [b]) => a - b);
  const lines = groupAlike(stages, ([, a], [, b]) => formatBytes(a) === formatBytes(b));
  const shown =
    lines.length <= mostLines ? lines : [stages.slice(0, 1), stages.slice(1, -1), stages.slice(-1)];
  return shown.map((run) => {
    const [[first], [last]] = [run[0]!, run.at(-1)!];
    const bytes = run.map(([, each]) => each);
    const [least, most] = [formatBytes(Math.min(...bytes)), formatBytes(Math.max(...bytes))];
    return [
      first === last ? `  stage ${first}` : `  stages ${first} to ${last}`,
      least === most ? most : `${least} to ${most}`,
    ];
  });
}

/** Groups consecutive values that are alike. */
function groupAlike<Each>(values: readonly Each[], isAlike: (a: Each, b: Each) => boolean): Each[][] {
  const runs: Each[][] = [];
  for (const value of values) {
    const last = runs.at(-1);
    if (last !== undefined && isAlike(last[0]!, value)) last.push(value);
    else runs.push([value]);
  }
  return runs;
}

/**
 * Returns the parts of a step with their times, the longest first. Parts below a thousandth of the step are
 * left out.
 */
function listParts({ breakdown, iterationSeconds }: RunPlan): [string, string][] {
  return Object.entries(breakdown)
    .map(([part, seconds]: [string, number]) => [nameOfPart[part as keyof StepBreakdown], seconds] as const)
    .filter(([, seconds]) => seconds >= iterationSeconds / 1000)
    .sort(([, a], [, b]) => b - a)
    .map(([name, seconds]) => [
      `  ${name}`,
      `${formatSeconds(seconds)}, ${percent(seconds / iterationSeconds)}`,
    ]);
}

/**
 * Returns lines about the communication of sharded states: within an instance, where it may grow with the
 * number of micro-batches, and between instances.
 */
function trafficLines({ shardingTraffic }: RunPlan): [string, string][] {
  if (shardingTraffic === undefined) return [];
  const { gatheredBytes, reducedBytes, acrossInstancesBytes } = shardingTraffic;
  const within = `each rank sends ${formatBytes(gatheredBytes)} to gather, ${formatBytes(reducedBytes)} to reduce`;
  const across =
    acrossInstancesBytes === undefined ? '' : `, ${formatBytes(acrossInstancesBytes)} between instances`;
  return [['sharded states', `${within}${across}`]];
}

const percent = (part: number): string => `${(100 * part).toFixed(1)} %`;

/** The name under which reports list each part of a step. */
export const nameOfPart: Readonly<Record<keyof StepBreakdown, string>> = {
  matmuls: 'matmuls',
  attention: 'attention',
  kernels: 'other kernels',
  ...communicationParts((axis) => `exposed ${axisFacts[axis].word} communication`),
  bubble: 'bubble',
  optimizer: 'optimizer',
  host: 'waiting for the host',
};

/** Formats a duration in seconds, or in milliseconds if it is below one second. */
export function formatSeconds(seconds: number): string {
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  return `${(1000 * seconds).toPrecision(3)} ms`;
}
