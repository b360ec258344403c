import { readProcessEnvironment } from '@mtl/comm/launcher';
import {
  type ParsedFlags,
  type PretrainingConfiguration,
  printConfiguration,
  resolveFlags,
  validateConfiguration,
} from '@mtl/configuration';
import { withLoadedFlags } from '@mtl/configuration/internal';
import { layoutText, leastProcesses } from '@mtl/configuration/strategies';
import { axisFacts, denseAxes, findStage } from '@mtl/layout';
import type { DryRunOfProgram } from '@mtl/runs';
import {
  activeText,
  loadModelBlocks,
  openConversations,
  readLoadedFlags,
  withHubModels,
} from '@mtl/runs/internal';
import { formatBytes } from '@mtl/trainer';
import { alignColumns } from '../align-columns.js';
import { type DryRun, dryRun } from './dry-run.js';
import type { DryRunRank } from './dry-run-rank.js';

/**
 * Prints a run's configuration and the resources that it needs, for a training program's --dry-run.
 *
 * @throws the errors of checking the flags, building the run, and its first step
 */
export async function printDryRun(options: DryRunOfProgram): Promise<void> {
  const { numProcesses, variables, print } = options;
  const { rank, worldSize: numRunning } = readProcessEnvironment(variables);
  if (rank > 0) return;
  const asked = withoutData(await withHubModels(options.flags, { needs: 'configuration', onMessage: print }));
  await loadModelBlocks(asked);
  const flags = withLoadedFlags(asked, await readLoadedFlags(asked));
  const worldSize = numProcesses ?? (numRunning > 1 ? numRunning : leastProcesses(flags.values));
  // conversations are read, because the number of steps depends on their count
  const conversations = await openConversations(flags);
  const configuration = validateConfiguration(flags, { worldSize, conversations: conversations?.samples });
  print(printConfiguration(configuration, { all: false }));
  print(formatDryRun(configuration, await dryRun(configuration)));
}

/** Returns the flags with a substitute for --data-path, because datasets are not opened. */
function withoutData(flags: ParsedFlags): ParsedFlags {
  const request = { ...flags.request, unused: { ...flags.request.unused, 'data-path': ['bundled'] } };
  return { ...flags, ...resolveFlags(request), request };
}

/** Formats a dry run as a table. Ranks with equal values share a line. */
export function formatDryRun({ parallel }: PretrainingConfiguration, { ranks, ...of }: DryRun): string {
  const columns = ['ranks', 'parameters', 'peak memory', 'FLOPs of a step', 'sent in a step'];
  const groups = alike(ranks);
  const rows = groups.map((group) => [nameRanks(group, ranks), ...formatNumbers(group[0]!)]);
  return [
    `dry run: ${counted(of.numParameters)} parameters${activeText(of.numActiveParameters, counted)} on ${parallel.worldSize} processes ` +
      `(${layoutText(parallel)}), vocabulary ${of.vocabularySize}`,
    ...alignColumns([columns, ...rows]),
    ...(of.unevenPeakBytes === undefined
      ? []
      : [
          `peak memory assumes even routing: a rank whose experts all tokens chose would take ${formatBytes(of.unevenPeakBytes)}`,
        ]),
  ].join('\n');
}

const counted = (count: number): string => count.toLocaleString('en-US');

/** Groups consecutive ranks with equal printed numbers. */
function alike(ranks: readonly DryRunRank[]): DryRunRank[][] {
  const groups: DryRunRank[][] = [];
  for (const rank of ranks) {
    const last = groups.at(-1);
    if (last !== undefined && `${formatNumbers(last[0]!)}` === `${formatNumbers(rank)}`) last.push(rank);
    else groups.push([rank]);
  }
  return groups;
}

function formatNumbers({ numParameters, peakBytes, flops, sentBytes }: DryRunRank): string[] {
  // the bytes of the group of all ranks are left out, because it sends only a few values per step
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
 * Returns the name of a table line: the stages and, if the ranks of a stage differ, the coordinates within
 * the stage.
 */
function nameRanks(group: readonly DryRunRank[], ranks: readonly DryRunRank[]): string {
  const [{ coordinates: first }, { coordinates: last }] = [group[0]!, group.at(-1)!];
  const [stage, lastStage] = [findStage(first), findStage(last)];
  const ofStage = ranks.filter(({ coordinates }) => findStage(coordinates) === stage);
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
