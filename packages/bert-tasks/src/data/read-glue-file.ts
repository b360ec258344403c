import { nearestName } from '@mtl/errors';
import { readTaskText, taskError } from './task-files.js';

/** Two texts and the label of their relation. */
export interface SentencePairExample {
  /** The identifier of the example in a predictions file: MNLI's `index`, QQP's `id`. */
  readonly id: string;
  readonly first: string;
  readonly second: string;
  /** The index of the label in the task's labels; undefined in a file without labels (a test set). */
  readonly label: number | undefined;
  /** The source of the pair (MNLI only). */
  readonly genre: string | undefined;
}

/**
 * The supported sentence-pair tasks of GLUE: the labels in the order of their indices, the columns, and the
 * names of predictions in a submission (MNLI's matched set first).
 */
export const glueTasks = {
  MNLI: {
    labels: ['contradiction', 'entailment', 'neutral'],
    columns: { id: 'index', first: 'sentence1', second: 'sentence2', label: 'gold_label', genre: 'genre' },
    predictionFiles: ['MNLI-m.tsv', 'MNLI-mm.tsv'],
  },
  QQP: {
    labels: ['0', '1'],
    columns: { id: 'id', first: 'question1', second: 'question2', label: 'is_duplicate', genre: undefined },
    predictionFiles: ['QQP.tsv'],
  },
} as const;
export type GlueTaskName = keyof typeof glueTasks;

/** A row that does not have the same number of columns as the header. */
export interface BrokenGlueRow {
  /** The line number, counted from 1; the header is line 1. */
  readonly line: number;
  readonly numColumns: number;
  readonly expectedColumns: number;
}

/** A file of GLUE, and its task. */
interface ReadGlueFileOptions {
  readonly task: GlueTaskName;
  readonly path: string;
  /**
   * Receives rows with a wrong number of columns, which are then skipped. Without this function, such a row
   * is an error. QQP's official train.tsv has a few such rows, in which a question contains a line break.
   */
  readonly onBrokenRow?: (row: BrokenGlueRow) => void;
}

/**
 * Reads a `train.tsv`, `dev*.tsv` or `test*.tsv` of GLUE: the first line names the columns, tabs separate
 * columns, and quotes have no special meaning. MNLI pairs without a consensus (gold label `-`) are skipped,
 * as MNLI's authors recommend. Throws `MTL_DATA_TASK_FILE` and `MTL_DATA_TASK_LABEL`, which name the line.
 */
export function readGlueFile({ task, path, onBrokenRow }: ReadGlueFileOptions): SentencePairExample[] {
  const { labels } = glueTasks[task];
  const lines = readTaskText(path).split('\n');
  if (lines.at(-1) === '') lines.pop();
  const [header = '', ...rows] = lines.map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line));
  const names = header.split('\t');
  const columns = findColumns({ task, path, names });
  const examples: SentencePairExample[] = [];
  for (const [i, row] of rows.entries()) {
    const line = i + 2;
    const values = row.split('\t');
    if (values.length !== names.length) {
      const broken = { line, numColumns: values.length, expectedColumns: names.length };
      if (onBrokenRow === undefined) throw brokenRow(path, broken);
      onBrokenRow(broken);
      continue;
    }
    const labelText = columns.label === undefined ? undefined : values[columns.label]!;
    if (task === 'MNLI' && labelText === '-') continue;
    const label = labelText === undefined ? undefined : (labels as readonly string[]).indexOf(labelText);
    if (label === -1) throw unknownLabel({ path, line, label: labelText!, labels });
    examples.push({
      id: values[columns.id]!,
      first: values[columns.first]!,
      second: values[columns.second]!,
      label,
      genre: columns.genre === undefined ? undefined : values[columns.genre]!,
    });
  }
  if (examples.length === 0) {
    throw taskError({
      code: 'MTL_DATA_TASK_FILE',
      path,
      what: 'has no examples',
      expected: `rows of ${task} below a header`,
    });
  }
  return examples;
}

/**
 * Returns the positions of the columns. The label column may be missing (a test set); the file then cannot be
 * used for training or metrics.
 */
function findColumns(options: { task: GlueTaskName; path: string; names: readonly string[] }) {
  const { task, path, names } = options;
  const { columns } = glueTasks[task];
  const find = (name: string): number => {
    const found = names.indexOf(name);
    if (found >= 0) return found;
    const near = nearestName(name, names);
    throw taskError({
      code: 'MTL_DATA_TASK_FILE',
      path,
      place: 'line 1',
      what: `has no column ${name}`,
      expected: `the columns of ${task}: ${Object.values(columns)
        .filter((column) => column !== undefined)
        .join(', ')}; it has ${names.slice(0, 12).join(', ')}`,
      ...(near === undefined ? {} : { remedy: `is ${near} the column ${name}?` }),
    });
  };
  return {
    id: find(columns.id),
    first: find(columns.first),
    second: find(columns.second),
    label: names.includes(columns.label) ? find(columns.label) : unlabelled({ task, path, names }),
    genre: columns.genre === undefined ? undefined : find(columns.genre),
  };
}

/**
 * Checks a file without a label column. Throws if the file has columns that test sets do not have, because
 * otherwise a file with a misspelt label column would count as a test set.
 */
function unlabelled(options: { task: GlueTaskName; path: string; names: readonly string[] }): undefined {
  const { task, path, names } = options;
  const { label } = glueTasks[task].columns;
  // Columns that exist only in files with labels.
  const sign = names.find((name) => /^label\d*$|^qid[12]$/.test(name)) ?? nearestName(label, names);
  if (sign === undefined) return undefined;
  throw taskError({
    code: 'MTL_DATA_TASK_FILE',
    path,
    place: 'line 1',
    what: `has no column ${label}, but ${sign}`,
    expected: `the column ${label} in a file with labels; a test set has neither`,
  });
}

function brokenRow(path: string, { line, numColumns, expectedColumns }: BrokenGlueRow) {
  return taskError({
    code: 'MTL_DATA_TASK_FILE',
    path,
    place: `line ${line}`,
    what: `has ${numColumns} column${numColumns === 1 ? '' : 's'}`,
    expected: `${expectedColumns}, as line 1 names`,
    remedy: 'fix the row, or leave such rows out (onBrokenRow)',
  });
}

function unknownLabel(options: { path: string; line: number; label: string; labels: readonly string[] }) {
  const { path, line, label, labels } = options;
  const near = nearestName(label, labels);
  return taskError({
    code: 'MTL_DATA_TASK_LABEL',
    path,
    place: `line ${line}`,
    what: `the label ${JSON.stringify(label)} is not a label of the task`,
    expected: labels.join(', '),
    ...(near === undefined ? {} : { remedy: `write ${near}` }),
  });
}
