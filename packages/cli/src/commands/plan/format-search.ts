import { searchedSettings } from '@mtl/configuration/strategies';
import type { Profile, StepBreakdown } from '@mtl/cost-model';
import type { FoundLayout, LayoutSearch } from '@mtl/planning';
import { wholeMemory } from '@mtl/planning/internal';
import { shellWord } from '@mtl/runs/internal';
import { formatBytes } from '@mtl/trainer';
import { wrapCommand, wrapText } from '../../terminal/report-text.js';
import { formatSeconds, nameOfPart } from './format-plan.js';

export interface FormatSearchOptions {
  /** Returns the command that starts the run with its own flags and the flags in `words`. */
  readonly commandWith: (words: readonly string[]) => readonly string[];
  /** A note that the times are predictions. It states how far earlier predictions were wrong. */
  readonly accuracy: string;
  readonly numNodes: number;
  /** Required flags that the printed commands lack, because a plan does not need them. */
  readonly missing: readonly string[];
}

const indent = '   ';

const legend = `each layout: time of a step, model FLOPs per second, memory of the fullest rank; how much slower it
is than the first one, and by which parts of the step (exposed: communication that no computation
hides; bubble: ranks wait for other pipeline stages)
`;

/**
 * Formats the layouts that a search found: the memory and the time that each layout needs, and the reason why
 * it is slower than the first layout. Also formats the command lines: the common flags once, then each
 * layout's own flags.
 */
export function formatSearch(search: LayoutSearch, options: FormatSearchOptions): string {
  const { numCandidates, numFitting, layouts } = search;
  const { commandWith, accuracy, numNodes, missing } = options;
  const [best] = layouts;
  const flags = layouts.map(({ words }) => groupFlags(words));
  const common = flags[0]!.filter((flag) => flags.every((others) => others.includes(flag)));
  const all = [...commandWith([]).map(shellWord), ...common].join(' ');
  return [
    `${numCandidates} layouts, of which ${numFitting} should fit; the fastest of each kind:\n`,
    `${wrapText(accuracy)}\n`,
    layouts.length === 1 ? 'the command:\n' : 'the command, to which each layout adds its flags:\n',
    `${wrapCommand(all, '   ')}\n`,
    legend,
    ...layouts.map((layout, index) =>
      [
        `${wrapText(`${index + 1}. ${describe(layout)}`, { indent })}\n`,
        `${indent}${formatCosts(layout)}\n`,
        ...(index === 0
          ? []
          : [`${indent}${wrapText(reason(layout, best!), { indent, taken: indent.length })}\n`]),
        ...own(flags[index]!, common).map((words) => `${wrapCommand(words, indent)}\n`),
      ].join(''),
    ),
    ...(numNodes === 1
      ? []
      : [
          `${wrapText(`on ${numNodes} nodes: start the command on each, with its own --node-rank; HOST is the first one`)}\n`,
        ]),
    ...(missing.length === 0
      ? []
      : [`${wrapText(`add ${missing.join(', ')}: a plan does not need them, training does`)}\n`]),
  ].join('');
}

/** Returns a string for each flag with its values, quoted for a shell. */
function groupFlags(words: readonly string[]): string[] {
  const flags: string[] = [];
  for (const word of words.map(shellWord)) {
    if (word.startsWith('--')) flags.push(word);
    else flags.push(`${flags.pop()} ${word}`);
  }
  return flags;
}

/** Returns the line with a layout's own flags, if there are any. */
function own(flags: readonly string[], common: readonly string[]): string[] {
  const added = flags.filter((flag) => !common.includes(flag));
  return added.length === 0 ? [] : [`... ${added.join(' ')}`];
}

function describe({ candidate }: FoundLayout): string {
  const { tensor, context = 1, pipeline, data, chunks, microBatch, schedule, recomputation } = candidate;
  const { expert = 1, expertTensor = 1 } = candidate;
  const mesh = [
    `tensor ${tensor}`,
    ...(context > 1 ? [`context ${context}`] : []),
    `pipeline ${pipeline}`,
    `data ${data}`,
  ];
  return [
    mesh.join(' x '),
    ...(expert > 1 ? [`expert ${expert}`] : []),
    ...(schedule === 'none' ? [] : [`${schedule}${chunks > 1 ? ` with ${chunks} chunks` : ''}`]),
    `micro-batch ${microBatch}`,
    ...(expertTensor > 1 ? [`each expert shared by ${expertTensor}`] : []),
    ...(recomputation === 'none' ? [] : [`${recomputation} recomputation`]),
    ...searchedSettings.flatMap(({ key, words }) => words(candidate[key]) ?? []),
  ].join(', ');
}

/** Returns the JSON object for a layout. */
export const recordedLayout = ({ candidate }: FoundLayout): Readonly<Record<string, unknown>> =>
  Object.assign(
    {},
    ...Object.entries(candidate).map(([key, value]: [string, unknown]) => {
      const setting = searchedSettings.find((each) => each.key === key);
      return setting === undefined ? { [key]: value } : setting.recorded(value);
    }),
  );

function formatCosts({ plan }: FoundLayout): string {
  const memory = Math.max(...plan.ranks.map(wholeMemory));
  return `${formatSeconds(plan.iterationSeconds)}, ${plan.teraflopsPerGpu.toFixed(1)} TFLOP/s per GPU, ${formatBytes(memory)}`;
}

/**
 * Formats how much slower a layout is than the best layout, and the two phases of the step that contribute
 * most to the difference.
 */
function reason({ plan }: FoundLayout, { plan: best }: FoundLayout): string {
  const slower = plan.iterationSeconds - best.iterationSeconds;
  const parts = Object.entries(plan.breakdown)
    .map(([part, seconds]: [string, number]) => {
      const key = part as keyof StepBreakdown;
      return { name: nameOfPart[key], more: seconds - best.breakdown[key] };
    })
    .filter(({ more }) => more > Math.max(slower / 10, 0))
    .sort((a, b) => b.more - a.more)
    .slice(0, 2)
    .map(({ name, more }) => `${name} +${formatSeconds(more)}`);
  const by = `${formatSeconds(slower)} slower (${((100 * slower) / best.iterationSeconds).toFixed(1)} %)`;
  return parts.length === 0 ? by : `${by}: ${parts.join(', ')}`;
}

export interface LaunchWordsOptions {
  readonly program: string;
  /** The words after the program's name. */
  readonly flags: readonly string[];
  readonly numProcesses: number;
  readonly gpusPerNode: number;
}

/**
 * Returns the smallest number of nodes that hold `numProcesses` processes, with the same number on each node.
 */
export function chooseNumNodes(numProcesses: number, gpusPerNode: number): number {
  let numNodes = Math.ceil(numProcesses / gpusPerNode);
  while (numProcesses % numNodes !== 0) numNodes++;
  return numNodes;
}

/**
 * Returns the words of a command that starts a training program. For several nodes, the words are for the
 * first node.
 */
export function launchWords({ program, flags, numProcesses, gpusPerNode }: LaunchWordsOptions): string[] {
  if (numProcesses === 1) return [program, ...flags];
  const numNodes = chooseNumNodes(numProcesses, gpusPerNode);
  const nodes =
    numNodes === 1 ? [] : ['--nnodes', `${numNodes}`, '--node-rank', '0', '--master-addr', 'HOST'];
  const perNode = `${numProcesses / numNodes}`;
  return ['mtl', 'run', ...nodes, '--nproc-per-node', perNode, program, '--', ...flags];
}

/**
 * Returns a note that a plan is a prediction, with the error of such predictions on measured steps (see
 * planner-against-papers and planner-against-runs in docs/benchmarks).
 */
export function accuracy({ hardware, software }: Profile): string {
  if (hardware.state === 'measured') {
    if (hardware.deviceType === 'cuda')
      return 'predicted, not measured: no run on a GPU was compared with such a plan yet';
    return (
      'predicted, not measured: of 18 layouts on two cores, steps were 7.5 and 10.6 % off in the median of two runs, ' +
      '30 % at most'
    );
  }
  const papers =
    'steps that papers published, and that no constant was fitted on, were 1 to 9 % off on average by paper, ' +
    '22 % at most (81 steps)';
  return software.operations === 'listed'
    ? `predicted, not measured: ${papers}`
    : `predicted, not measured: with this model of GPUs, ${papers}; this program was not measured on one yet`;
}
