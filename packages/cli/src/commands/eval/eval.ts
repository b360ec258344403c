import { BadLines, corpusFileNames, splitNames } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import { type Perplexity, perplexity } from '@mtl/inference';
import type { LoadedGpt } from '@mtl/runs';
import type { Command } from 'commander';
import type { MissingWord } from '../../command-line/command-line-error.js';
import { inWordsOfFlags, skipBadLinesOption, warnOfBadLines } from '../../command-line/corpus-reading.js';
import {
  loadModelOfFlags,
  type ModelFlagValues,
  missingModel,
  newModelCommand,
  requiredTokenizer,
} from '../../command-line/model-flags.js';
import { choiceOption, countOption } from '../../command-line/option-values.js';
import {
  addSharingFlags,
  type SharingFlagValues,
  withSharingProcesses,
} from '../../command-line/sharing-processes.js';
import { ProgressBar } from '../../terminal/progress-bar.js';
import { formatTable } from '../../terminal/report-text.js';
import { summaries } from '../summaries.js';
import { type DatasetSelection, type EvaluationText, readDatasets, readTextFiles } from './read-texts.js';
import { choiceTasks } from './tasks/choice-task.js';
import type { EvaluationTask, EvaluationWindows, TaskResult } from './tasks/evaluation-task.js';
import { lambadaTask } from './tasks/lambada-task.js';
import { wikitextTask } from './tasks/wikitext-task.js';

const tasks: readonly EvaluationTask[] = [wikitextTask, lambadaTask, ...choiceTasks];

type EvalFlags = ModelFlagValues &
  SharingFlagValues & {
    readonly task?: string;
    readonly validData?: string;
    readonly dataPath?: string[];
    readonly text?: string[];
    readonly jsonKey?: string;
    readonly skipBadLines?: true;
    readonly split?: string;
    readonly part?: DatasetSelection['part'];
    readonly seqLength?: number;
    readonly overlappingEval?: number;
    readonly microBatchSize: number;
    readonly maxTokens?: number;
    readonly json?: true;
  };

const examples = `
Without --data-path and --text it uses the validation documents of the data that the model was trained on.

Tasks:
  wikitext  perplexity per word of a WikiText file in its original form (wiki.test.tokens), detokenized, as in papers
  lambada   accuracy on the last word of a passage (all of its tokens), as in papers; raw passages in JSON lines
  hellaswag, arc-easy, arc-challenge, piqa, winogrande
            acc and acc_norm of multiple choice, as lm-evaluation-harness has them; JSON lines of the authors

Examples:
  mtl eval --load runs/shakespeare
  mtl eval --load-hf gpt2 --text book.txt --overlapping-eval 512
  mtl eval --load-hf gpt2 --task lambada --valid-data lambada_test.jsonl --micro-batch-size 16
  mtl run --nproc-per-node 2 mtl -- eval --load runs/large --pipeline-model-parallel-size 2`;

/**
 * Creates the command `mtl eval`, which computes the perplexity of a trained model, or its score in a task.
 */
export function evalCommand(): Command {
  return addSharingFlags(newModelCommand('eval', summaries.eval))
    .addOption(
      choiceOption(
        '--task <name>',
        'Evaluates a task instead, on --valid-data.',
        tasks.map(({ name }) => name),
      ),
    )
    .option('--valid-data <file>', 'The file of the task.')
    .option('--data-path <prefixes...>', 'Datasets of .bin and .idx.')
    .option('--text <files...>', `Files of text instead: ${corpusFileNames}.`)
    .option('--json-key <key>', 'Key of JSON lines, or column of Parquet, in files of --text. [text]')
    .addOption(skipBadLinesOption())
    .option('--split <a,b,c>', "Weights of the datasets' parts. [the training run's, else all documents]")
    .addOption(
      choiceOption('--part <name>', 'The part to evaluate. [valid with a split, else all]', [
        ...splitNames,
        'all',
      ]),
    )
    .addOption(countOption('--seq-length <n>', 'Tokens in a window. [as in training]'))
    .addOption(
      countOption(
        '--overlapping-eval <stride>',
        'Tokens from the start of a window to the next. [--seq-length; 32 for the task wikitext, as in the paper]',
      ),
    )
    .addOption(countOption('--micro-batch-size <n>', 'Windows or passages computed at once.').default(4))
    .addOption(
      countOption('--max-tokens <n>', 'Maximum number of tokens of a dataset or file.', { least: 2 }),
    )
    .option('--json', 'Prints JSON.')
    .addHelpText('after', examples)
    .requires(missingFlags)
    .action(runEval);
}

/** Returns missing flags. @throws ConfigurationError MTL_FLAG_CONFLICT, MTL_FLAG_NEEDS */
function missingFlags(flags: EvalFlags): readonly MissingWord[] {
  checkFlags(flags);
  return [...missingModel(flags), ...missingData(flags)];
}

/**
 * Returns the flag for the data if it is required and missing. It is optional for a checkpoint, which records
 * its data, but not for a directory of the transformers library.
 */
function missingData({
  task,
  validData,
  load,
  loadHf,
  text,
  dataPath,
  split,
  part,
}: EvalFlags): readonly MissingWord[] {
  if (task !== undefined)
    return validData === undefined ? [{ name: '--valid-data', usage: '--valid-data FILE' }] : [];
  const isNamed = [text, dataPath, split, part].some((value) => value !== undefined);
  // no flag is reported if two models are given, because that is reported as a different error
  const isKnown = isNamed || loadHf === undefined || load !== undefined;
  return isKnown ? [] : [{ name: '--text (or --data-path)', usage: '--text FILE' }];
}

async function runEval(flags: EvalFlags): Promise<void> {
  const task = tasks.find(({ name }) => name === flags.task);
  await withSharingProcesses(flags, async (sharing) => {
    const loaded = await loadModelOfFlags(flags, sharing);
    const bar = new ProgressBar(sharing.isFirst ? process.stderr : silent);
    try {
      const windows = chooseWindows(flags, { loaded, defaultStride: task?.defaultStride });
      const bad = new BadLines({ skip: flags.skipBadLines === true });
      const call = { flags, loaded, windows, bar, bad };
      const { report, table } = task === undefined ? await scoreTexts(call) : await runTask(task, call);
      bar.close();
      if (sharing.isFirst) warnOfBadLines(bad);
      if (sharing.isFirst) process.stdout.write(flags.json === true ? `${JSON.stringify(report)}\n` : table);
    } catch (error) {
      const skipsBadLines = flags.skipBadLines === true;
      throw task === undefined ? inWordsOfFlags(error, { keyFlag: '--json-key', skipsBadLines }) : error;
    } finally {
      bar.close();
      loaded.dispose();
    }
  });
}

const silent = { write: () => true };

/** The inputs of one evaluation: flags, model and windows. */
interface EvaluationCall {
  readonly flags: EvalFlags;
  readonly loaded: LoadedGpt;
  readonly windows: EvaluationWindows;
  readonly bar: ProgressBar;
  readonly bad: BadLines;
}

function checkFlags(flags: EvalFlags): void {
  const { task, validData } = flags;
  const conflict = (what: string, remedy = 'leave out one'): never => {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', what, { remedy });
  };
  if (task === undefined) {
    if (validData !== undefined) {
      throw new ConfigurationError('MTL_FLAG_NEEDS', '--valid-data is the file of a --task', {
        expected: `--task ${tasks.map(({ name }) => name).join(' | ')}, or --text ${validData} without a task`,
      });
    }
    if (flags.dataPath !== undefined && flags.text !== undefined) {
      conflict('--data-path and --text: evaluate one at a time');
    }
    if (flags.jsonKey !== undefined && flags.text === undefined) {
      throw new ConfigurationError('MTL_FLAG_NEEDS', '--json-key is the key of a --text file', {
        expected: '--text FILE',
      });
    }
    if (flags.skipBadLines !== undefined && flags.text === undefined) {
      throw new ConfigurationError('MTL_FLAG_NEEDS', '--skip-bad-lines is about the lines of a --text file', {
        expected: '--text FILE',
      });
    }
    return;
  }
  const others = {
    dataPath: '--data-path',
    text: '--text',
    jsonKey: '--json-key',
    skipBadLines: '--skip-bad-lines',
    split: '--split',
    part: '--part',
  } as const;
  for (const [key, flag] of Object.entries({ ...others, maxTokens: '--max-tokens' })) {
    if (flags[key as keyof EvalFlags] !== undefined) {
      conflict(`${flag} does not go with --task`, 'the data of a task is its --valid-data');
    }
  }
  if (task !== wikitextTask.name && (flags.overlappingEval ?? flags.seqLength) !== undefined) {
    conflict(`--task ${task} has no windows`, 'leave --overlapping-eval and --seq-length out');
  }
}

async function runTask(
  task: EvaluationTask,
  { flags, loaded, windows, bar }: EvaluationCall,
): Promise<TaskResult> {
  const path = flags.validData!;
  const { report, table } = await task.run({
    path,
    loaded,
    windows,
    batchSize: flags.microBatchSize,
    onProgress: (fraction) => bar.update(fraction, task.name),
  });
  const how = task.defaultStride === undefined ? {} : windows;
  const title = `${loaded.path}, ${task.name}${formatWindows(how)}`;
  return {
    report: { model: loaded.path, task: task.name, file: path, ...how, ...report },
    table: `${title}\n${path}\n${table}`,
  };
}

async function scoreTexts({ flags, loaded, windows, bar, bad }: EvaluationCall): Promise<TaskResult> {
  const results: EvaluationResult[] = [];
  for (const { name, tokens, given, bytes } of await openTexts(flags, { loaded, bad })) {
    const result = await perplexity({
      model: loaded.model,
      tokens,
      ...(given === undefined ? {} : { given }),
      window: windows.sequenceLength,
      overlap: windows.sequenceLength - windows.stride,
      batchSize: flags.microBatchSize,
      onProgress: ({ numScored, numTokens }) => bar.update(numScored / numTokens, name),
    });
    results.push({ name, ...result, ...(bytes === undefined ? {} : { bytes }) });
  }
  const report = { model: loaded.path, ...windows, results, total: sumResults(results) };
  return { report, table: formatEvaluation(report) };
}

function chooseWindows(
  flags: EvalFlags,
  { loaded, defaultStride }: { loaded: LoadedGpt; defaultStride: number | undefined },
): EvaluationWindows {
  const { maximumContext } = loaded.model;
  const sequenceLength = flags.seqLength ?? loaded.sequenceLength;
  if (sequenceLength > maximumContext) {
    throw new ConfigurationError(
      'MTL_SEQUENCE_LENGTH',
      `--seq-length ${sequenceLength} exceeds the context of the model`,
      {
        expected: `at most ${maximumContext}, its position embeddings`,
      },
    );
  }
  const stride = flags.overlappingEval ?? Math.min(defaultStride ?? sequenceLength, sequenceLength);
  if (stride <= sequenceLength) return { sequenceLength, stride };
  throw new ConfigurationError('MTL_FLAG_VALUE', `--overlapping-eval ${stride} would leave tokens out`, {
    expected: `at most ${sequenceLength}, the --seq-length`,
  });
}

async function openTexts(
  flags: EvalFlags,
  { loaded, bad }: Pick<EvaluationCall, 'loaded' | 'bad'>,
): Promise<EvaluationText[]> {
  const maxTokens = flags.maxTokens ?? Number.POSITIVE_INFINITY;
  if (flags.text !== undefined) {
    return await readTextFiles(flags.text, {
      tokenizer: requiredTokenizer(loaded),
      maxTokens,
      jsonKey: flags.jsonKey,
      bad,
    });
  }
  if (flags.dataPath !== undefined) {
    // datasets on which the model was not trained contain no training documents, so the default is all
    // documents
    const part = flags.part ?? (flags.split === undefined ? 'all' : 'valid');
    const split = flags.split ?? loaded.data?.split;
    if (part === 'all') return readDatasets(flags.dataPath, { split: '1', part, maxTokens });
    if (split !== undefined) return readDatasets(flags.dataPath, { split, part, maxTokens });
    throw new ConfigurationError('MTL_FLAG_NEEDS', `--part ${part} needs --split`, {
      expected: 'the weights that the parts were split by, such as --split 969,30,1',
    });
  }
  const data = loaded.data;
  if (data !== undefined && data.dataPath.length > 0) {
    const [split, part] = [flags.split ?? data.split, flags.part ?? 'valid'];
    return readDatasets(data.dataPath, { split, part, maxTokens });
  }
  const why = data === undefined ? '' : `: ${loaded.path} was trained on conversations, or on made-up data`;
  throw new ConfigurationError('MTL_FLAG_REQUIRED', `there is nothing to evaluate on${why}`, {
    expected: '--data-path PREFIX or --text FILE',
  });
}

/** A model's perplexity on one text. */
interface EvaluationResult extends Perplexity {
  readonly name: string;
  readonly bytes?: number;
}

export interface EvaluationReport extends EvaluationWindows {
  readonly model: string;
  readonly results: readonly EvaluationResult[];
  readonly total: Perplexity;
}

/** Returns the perplexity over all texts together, in which every token has the same weight. */
function sumResults(results: readonly Perplexity[]): Perplexity {
  const sum = (of: (result: Perplexity) => number): number =>
    results.reduce((total, one) => total + of(one), 0);
  const numScored = sum((one) => one.numScored);
  const negativeLogLikelihood = sum((one) => one.negativeLogLikelihood);
  const loss = negativeLogLikelihood / numScored;
  return { numScored, negativeLogLikelihood, loss, perplexity: Math.exp(loss) };
}

/** Returns a description of the windows for a title; an empty string if there are no windows. */
function formatWindows(windows: Partial<EvaluationWindows>): string {
  const { sequenceLength, stride } = windows;
  if (sequenceLength === undefined) return '';
  return `, windows of ${sequenceLength} tokens${stride === sequenceLength ? '' : `, moving by ${stride}`}`;
}

/** Formats the report as a table. */
function formatEvaluation({ model, results, total, ...windows }: EvaluationReport): string {
  const blocks = results.map((result) => `${result.name}\n${formatTable(formatRows(result))}`);
  if (results.length > 1) blocks.push(`all ${results.length}\n${formatTable(formatRows(total))}`);
  return `${model}${formatWindows(windows)}\n${blocks.join('')}`;
}

function formatRows({ bytes, ...result }: Perplexity & { readonly bytes?: number }) {
  const rows: Array<readonly [string, string | number]> = [
    ['tokens scored', result.numScored],
    ['loss', `${result.loss.toFixed(4)} nats a token`],
    ['perplexity', result.perplexity.toFixed(3)],
  ];
  if (bytes !== undefined) {
    rows.push(['bits a byte', (result.negativeLogLikelihood / Math.LN2 / bytes).toFixed(4)]);
  }
  return rows;
}
