import { splitNames } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import { perplexity } from '@mtl/inference';
import type { LoadedGpt, TrainingProcesses } from '@mtl/recipes';
import type { Command } from 'commander';
import { loadModelOfFlags, type ModelFlagValues, newModelCommand } from '../../command-line/model-flags.js';
import { choiceOption, countOption } from '../../command-line/option-values.js';
import { requiredTokenizer } from '../../command-line/required-tokenizer.js';
import {
  addSharingFlags,
  type SharingFlagValues,
  withSharingProcesses,
} from '../../command-line/sharing-processes.js';
import { ProgressBar } from '../../terminal/progress-bar.js';
import { type EvaluationResult, formatEvaluation, totalOf } from './format-evaluation.js';
import { type DatasetPart, type EvaluationText, readDatasets, readTextFiles } from './read-texts.js';

interface EvalFlags extends ModelFlagValues, SharingFlagValues {
  readonly dataPath?: string[];
  readonly text?: string[];
  readonly split?: string;
  readonly part?: DatasetPart['part'];
  readonly seqLength?: number;
  readonly overlappingEval?: number;
  readonly microBatchSize: number;
  readonly maxTokens?: number;
  readonly json?: true;
}

const examples = `
Without --data-path and --text it takes the validation documents of the training's own data.

Examples:
  mtl eval --load runs/shakespeare
  mtl eval --load-hf gpt2 --text book.txt --overlapping-eval 512
  mtl run --nproc-per-node 2 node_modules/@mtl/cli -- eval --load runs/large --pipeline-model-parallel-size 2`;

/** `mtl eval`: the perplexity of a trained model. */
export function evalCommand(): Command {
  return addSharingFlags(newModelCommand('eval', 'the perplexity of a trained model on a dataset or on text'))
    .option('--data-path <prefixes...>', '.bin/.idx datasets')
    .option('--text <files...>', 'text instead: .txt, .jsonl (also .gz) or .parquet')
    .option('--split <a,b,c>', "weights of the datasets' parts (default: the training's, else all documents)")
    .addOption(
      choiceOption('--part <name>', 'which of them (default: valid with a split, else all)', [
        ...splitNames,
        'all',
      ]),
    )
    .addOption(countOption('--seq-length <n>', 'tokens in a window (default: as in training)'))
    .addOption(
      countOption('--overlapping-eval <stride>', 'windows move by so many tokens (default: by --seq-length)'),
    )
    .addOption(countOption('--micro-batch-size <n>', 'windows computed at once').default(4))
    .addOption(countOption('--max-tokens <n>', 'most tokens of a dataset or file', { least: 2 }))
    .option('--json', 'print JSON')
    .addHelpText('after', examples)
    .action(runEval);
}

async function runEval(flags: EvalFlags): Promise<void> {
  if (flags.dataPath !== undefined && flags.text !== undefined) {
    throw new ConfigurationError(
      'MTL_FLAG_CONFLICT',
      '--data-path and --text: evaluate one of them at a time',
      {
        remedy: 'leave one of them out',
      },
    );
  }
  await withSharingProcesses(flags, (processes) => evaluate(flags, processes));
}

/** Every process that shares the model takes part; the first one reports. */
async function evaluate(flags: EvalFlags, processes: TrainingProcesses | undefined): Promise<void> {
  const isReporting = processes?.isFirst ?? true;
  const loaded = await loadModelOfFlags(flags, processes);
  const bar = new ProgressBar();
  try {
    const windows = windowsOf(flags, loaded);
    const texts = await textsOf(flags, loaded);
    const results: EvaluationResult[] = [];
    for (const { name, tokens, bytes } of texts) {
      const result = await perplexity({
        model: loaded.model,
        tokens,
        window: windows.sequenceLength,
        overlap: windows.sequenceLength - windows.stride,
        batchSize: flags.microBatchSize,
        onProgress: ({ numScored, numTokens }) => {
          if (isReporting) bar.update(numScored / numTokens, name);
        },
      });
      results.push({ name, ...result, ...(bytes === undefined ? {} : { bytes }) });
    }
    bar.close();
    if (!isReporting) return;
    const report = { model: loaded.path, ...windows, results, total: totalOf(results) };
    process.stdout.write(flags.json === true ? `${JSON.stringify(report)}\n` : formatEvaluation(report));
  } finally {
    bar.close();
    loaded.dispose();
  }
}

function windowsOf(flags: EvalFlags, loaded: LoadedGpt): { sequenceLength: number; stride: number } {
  const { maximumContext } = loaded.model;
  const sequenceLength = flags.seqLength ?? loaded.sequenceLength;
  if (sequenceLength > maximumContext) {
    throw new ConfigurationError(
      'MTL_SEQUENCE_LENGTH',
      `--seq-length ${sequenceLength} is more than the model sees`,
      {
        expected: `at most ${maximumContext}, its position embeddings`,
      },
    );
  }
  const stride = flags.overlappingEval ?? sequenceLength;
  if (stride <= sequenceLength) return { sequenceLength, stride };
  throw new ConfigurationError('MTL_FLAG_VALUE', `--overlapping-eval ${stride} would leave tokens out`, {
    expected: `at most ${sequenceLength}, the --seq-length`,
  });
}

async function textsOf(flags: EvalFlags, loaded: LoadedGpt): Promise<EvaluationText[]> {
  const maxTokens = flags.maxTokens ?? Number.POSITIVE_INFINITY;
  if (flags.text !== undefined) {
    return await readTextFiles(flags.text, { tokenizer: requiredTokenizer(loaded), maxTokens });
  }
  if (flags.dataPath !== undefined) {
    // Documents from elsewhere: none of them was trained on, unless a split says so.
    const part = flags.part ?? (flags.split === undefined ? 'all' : 'valid');
    const split = flags.split ?? loaded.data?.split;
    if (part === 'all') return readDatasets(flags.dataPath, { split: '1', part, maxTokens });
    if (split !== undefined) return readDatasets(flags.dataPath, { split, part, maxTokens });
    throw new ConfigurationError('MTL_FLAG_NEEDS', `--part ${part} needs --split`, {
      expected: 'the weights that the parts were cut by, such as --split 969,30,1',
    });
  }
  const data = loaded.data;
  if (data !== undefined) {
    const [split, part] = [flags.split ?? data.split, flags.part ?? 'valid'];
    return readDatasets(data.dataPath, { split, part, maxTokens });
  }
  throw new ConfigurationError('MTL_FLAG_REQUIRED', 'there is nothing to evaluate on', {
    expected: '--data-path PREFIX or --text FILE',
  });
}
