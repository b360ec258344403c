import { dirname, resolve } from 'node:path';
import type { Checkpoint } from '@mtl/checkpoint';
import { MtlError } from '@mtl/errors';
import { type RunRecord, type RunStart, readRunRecord } from '@mtl/run-records';
import type { FileContents } from './contents-of-flags.js';

type Datasets = RunStart['datasets'];
type Dataset = Datasets[number];

/**
 * The data of the run that saved a checkpoint, as recorded in the run.json next to the checkpoint. If the
 * data is unknown, `why` is the reason.
 */
type DataBefore =
  | { readonly start: RunStart; readonly why?: undefined }
  /** The reason why the data is unknown. */
  | { readonly start?: undefined; readonly why: string };

/**
 * Returns the start in which a run saved a checkpoint, which is the last start before the save. Later starts
 * may have failed, or may have continued from a different checkpoint.
 */
export function startOfCheckpoint({ path, manifest }: Pick<Checkpoint, 'path' | 'manifest'>): DataBefore {
  const directory = dirname(path);
  const { record, why } = readRecord(directory);
  if (why !== undefined) return { why };
  if (record === undefined) return { why: `${directory} has no run.json` };
  const { starts } = record;
  // the clocks of hosts differ, so all starts may seem to be later than the save; in this case, the first
  // start is used
  const start = starts.findLast(({ time }) => Date.parse(time) <= manifest.savedAtMs) ?? starts[0]!;
  return { start };
}

/**
 * Returns the last start in a run folder, in the same form as `startOfCheckpoint`; undefined if the folder
 * has no record.
 */
export function readLastStart(directory: string): DataBefore | undefined {
  const { record, why } = readRecord(directory);
  if (why !== undefined) return { why };
  return record && { start: record.starts.at(-1)! };
}

/**
 * Returns the record in a run folder, or the reason why it cannot be read. If there is no record, both are
 * undefined.
 */
function readRecord(directory: string): { readonly record?: RunRecord | undefined; readonly why?: string } {
  try {
    return { record: readRunRecord(directory) };
  } catch (error) {
    if (!MtlError.isInstance(error)) throw error;
    return { why: error.message };
  }
}

/**
 * Describes the differences between the data of two starts of a run, file by file. Returns an empty list if
 * the contents and their order are the same, even if the paths differ.
 */
export function dataChanges(
  before: Pick<RunStart, 'datasets' | 'workingDirectory'>,
  now: Datasets,
): readonly string[] {
  if (isSameOrder(before.datasets, now)) return [];
  const pathBefore = (dataset: Dataset): string => resolve(before.workingDirectory, nameDataset(dataset));
  const left = [...before.datasets];
  /**
   * Returns a matching dataset of the previous start and removes it from the remaining datasets; undefined if
   * none matches.
   */
  const take = (isWanted: (dataset: Dataset) => boolean): Dataset | undefined => {
    const index = left.findIndex(isWanted);
    return index < 0 ? undefined : left.splice(index, 1)[0];
  };
  const pairs = now
    .map((dataset) => ({ dataset, old: take((old) => pathBefore(old) === resolve(nameDataset(dataset))) }))
    // the same content at a different path is not a change
    .map(({ dataset, old }) => ({ dataset, old: old ?? take((other) => isSame(other, dataset)) }));
  const changes = [
    ...pairs.flatMap(({ dataset, old }) =>
      old === undefined
        ? [`${nameDataset(dataset)}: not among the data before`]
        : describeChange(old, dataset),
    ),
    ...left.map((old) => `${nameDataset(old)}: no longer among the data`),
  ];
  return changes.length > 0
    ? changes
    : [`the files are read in another order: ${now.map(nameDataset).join(', ')}`];
}

/** Describes the flags whose files have new contents at the same path. */
export function changedFiles(
  names: readonly string[],
  before: Pick<RunStart, 'contents' | 'contentsSha256' | 'resolved' | 'flags'>,
  now: FileContents & { readonly resolved: RunStart['flags'] },
): readonly string[] {
  const valuesBefore = before.resolved ?? before.flags;
  return names.flatMap((flag) => {
    const whole = [before.contentsSha256?.[flag], now.contentsSha256[flag]];
    // a record of an older version has only checksums of sampled bytes
    const [old, current] = whole.includes(undefined) ? [before.contents?.[flag], now.contents[flag]] : whole;
    const [valueBefore, value] = [valuesBefore[flag], now.resolved[flag]].map((one) => JSON.stringify(one));
    const isChanged = old !== undefined && current !== undefined && old !== current && valueBefore === value;
    return isChanged ? [`--${flag} ${[now.resolved[flag]].flat().join(' ')}: other content`] : [];
  });
}

/** Descriptions of how the training data and the evaluation data have changed. */
interface DataChanges {
  readonly training: readonly string[];
  readonly evaluation: readonly string[];
  /** The checkpoint or run folder that was made with the previous data. */
  readonly path: string;
}

/** Returns lines that report changes in the data to the user. The list is empty if there are none. */
export function notesOfDataChanges({ training, evaluation, path }: DataChanges): readonly string[] {
  const all = [...training, ...evaluation];
  if (all.length === 0) return [];
  return [
    `  note: the data differ from ${path}:`,
    ...all.map((change) => `    ${change}`),
    ...(training.length === 0
      ? []
      : ['  the order of samples differs from the first run: some may come again, others not at all']),
    ...(evaluation.length === 0 ? [] : ['  results of evaluations cannot be compared with earlier ones']),
  ];
}

/** Returns a note that the data with which a checkpoint was trained is unknown. */
export const noteOfUnknownData = (why: string, path: string): string =>
  `  note: ${why}: it is not known whether the data are the same as in ${path}`;

function isSameOrder(before: Datasets, now: Datasets): boolean {
  return before.length === now.length && before.every((dataset, index) => isSame(dataset, now[index]!));
}

/**
 * Returns true if two datasets have the same content, as far as their checksums show. A pipe has no checksum
 * and counts as the same.
 */
function isSame(before: Dataset, now: Dataset): boolean {
  if (before.sha256 !== undefined && now.sha256 !== undefined) return before.sha256 === now.sha256;
  const isUnknown = before.sampledSha256 === '' || now.sampledSha256 === '';
  return isUnknown || before.sampledSha256 === now.sampledSha256;
}

const nameDataset = (dataset: Dataset): string => ('prefix' in dataset ? dataset.prefix : dataset.path);

function describeChange(before: Dataset, now: Dataset): string[] {
  if (isSame(before, now)) return [];
  const sizesBefore = listSizes(before);
  const sizes = listSizes(now);
  const changes = sizes.flatMap(([name, bytes], index) => {
    const old = sizesBefore[index]?.[1];
    return old === bytes || old === undefined ? [] : [`${name}: ${counted(old)} -> ${counted(bytes)} bytes`];
  });
  return changes.length > 0 ? changes : [`${nameDataset(now)}: other content of the same size`];
}

/** Returns the files of a dataset, with their sizes in bytes. */
function listSizes(dataset: Dataset): readonly (readonly [name: string, bytes: number])[] {
  if (!('prefix' in dataset)) return [[dataset.path, dataset.bytes]];
  const { prefix, idxBytes, binBytes } = dataset;
  return [
    [`${prefix}.bin`, binBytes],
    [`${prefix}.idx`, idxBytes],
  ];
}

const counted = (bytes: number): string => bytes.toLocaleString('en-US');
