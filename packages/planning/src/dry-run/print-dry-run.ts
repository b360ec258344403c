import { readProcessEnvironment } from '@mtl/comm/internal';
import {
  type ParsedFlags,
  type PretrainingConfiguration,
  printConfiguration,
  resolveFlags,
  validateConfiguration,
} from '@mtl/configuration';
import { layoutText, leastProcesses, withLoadedFlags } from '@mtl/configuration/internal';
import { axisFacts, denseAxes, stageOf } from '@mtl/layout';
import type { DryRunOfProgram } from '@mtl/runs';
import { activeText, loadModelBlocks, openConversations, readLoadedFlags } from '@mtl/runs/internal';
import { formatBytes } from '@mtl/trainer/internal';
import { alignColumns } from '../align-columns.js';
import { type DryRun, dryRun } from './dry-run.js';
import type { DryRunRank } from './dry-run-rank.js';

/**
 * Prints the configuration and what the run takes, for --dry-run of a training program.
 *
 * @throws whatever checking the flags, building the run and its first step throw
 */
export async function printDryRun(options: DryRunOfProgram): Promise<void> {
  const { numProcesses, variables, print } = options;
  const { rank, worldSize: numRunning } = readProcessEnvironment(variables);
  if (rank > 0) return;
  const asked = withoutData(options.flags);
  await loadModelBlocks(asked);
  const flags = withLoadedFlags(asked, await readLoadedFlags(asked));
  const worldSize = numProcesses ?? (numRunning > 1 ? numRunning : leastProcesses(flags.values));
  // conversations are: their number is that of the steps
  const conversations = await openConversations(flags);
  const configuration = validateConfiguration(flags, { worldSize, conversations: conversations?.samples });
  print(printConfiguration(configuration, { all: false }));
  print(formatDryRun(configuration, await dryRun(configuration)));
}

/** Datasets are not opened, and none needs to be named. */
function withoutData(flags: ParsedFlags): ParsedFlags {
  const request = { ...flags.request, unused: { ...flags.request.unused, 'data-path': ['bundled'] } };
  return { ...flags, ...resolveFlags(request), request };
}

/** A dry run as a table; ranks that take the same are one line. */
export function formatDryRun({ parallel }: PretrainingConfiguration, { ranks, ...of }: DryRun): string {
  const columns = ['ranks', 'parameters', 'peak memory', 'FLOPs of a step', 'sent in a step'];
  const groups = alike(ranks);
  const rows = groups.map((group) => [nameOf(group, ranks), ...numbersOf(group[0]!)]);
  return [
    `dry run: ${counted(of.numParameters)} parameters${activeText(of.numActiveParameters, counted)} on ${parallel.worldSize} processes ` +
      `(${layoutText(parallel)}), vocabulary ${of.vocabularySize}`,
    ...alignColumns([columns, ...rows]),
    ...(of.unevenPeakBytes === undefined
      ? []
      : [
          `peak memory is that of even routing: a rank whose experts all tokens chose would take ${formatBytes(of.unevenPeakBytes)}`,
        ]),
  ].join('\n');
}

const counted = (count: number): string => count.toLocaleString('en-US');

/** Ranks one after the other whose numbers are the same to the digits that are shown. */
function alike(ranks: readonly DryRunRank[]): DryRunRank[][] {
  const groups: DryRunRank[][] = [];
  for (const rank of ranks) {
    const last = groups.at(-1);
    if (last !== undefined && `${numbersOf(last[0]!)}` === `${numbersOf(rank)}`) last.push(rank);
    else groups.push([rank]);
  }
  return groups;
}

function numbersOf({ numParameters, peakBytes, flops, sentBytes }: DryRunRank): string[] {
  // over all ranks only a few numbers of a step are exchanged
  const { world: _, ...along } = sentBytes;
  const sent = Object.entries(along).filter(([, bytes]) => bytes > 0);
  return [
    numParameters.toLocaleString('en-US'),
    formatBytes(peakBytes),
    flops.toExponential(3),
    sent.map(([scope, bytes]) => `${scope} ${formatBytes(bytes)}`).join(', ') || 'nothing',
  ];
}

/**
 * Which ranks a line is about: stages, and where in a stage a rank is of which another one differs.
 */
function nameOf(group: readonly DryRunRank[], ranks: readonly DryRunRank[]): string {
  const [{ coordinates: first }, { coordinates: last }] = [group[0]!, group.at(-1)!];
  const [stage, lastStage] = [stageOf(first), stageOf(last)];
  const ofStage = ranks.filter(({ coordinates }) => stageOf(coordinates) === stage);
  if (ofStage.some((rank) => !group.includes(rank))) {
    const differing = denseAxes.filter((axis) =>
      ofStage.some(({ coordinates }) => coordinates[axis] !== ofStage[0]!.coordinates[axis]),
    );
    const places = differing.map((axis) => `${axisFacts[axis].word} ${first[axis]}`);
    return [`stage ${stage}`, ...places].join(', ');
  }
  if (ofStage.length === ranks.length) return 'all';
  return stage === lastStage ? `stage ${stage}` : `stages ${stage} to ${lastStage}`;
}
