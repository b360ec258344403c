import {
  type Flags,
  type ModelKind,
  type PretrainingConfiguration,
  parseFlags,
  validateConfiguration,
  withLoadedFlags,
} from '@mtl/configuration';
import { createTokenizer } from '@mtl/data';
import {
  checkPredictable,
  type MemoryPrediction,
  type MemoryShape,
  memorySavings,
  memoryShapeOf,
  type PipelineShape,
  predictMemory,
  predictStages,
  predictTime,
  readLoadedFlags,
  type TimePrediction,
} from '@mtl/recipes';
import { formatDuration } from '@mtl/trainer';
import type { Command } from 'commander';
import { newCommand } from '../command-line/new-command.js';
import { choiceOption, countOption, numberOption } from '../command-line/option-values.js';
import { formatBytes } from '../terminal/format-bytes.js';
import { formatTable } from '../terminal/format-table.js';

interface PlanFlags {
  readonly model: ModelKind;
  readonly numProcesses: number;
  readonly memory?: number;
  readonly tflops?: number;
  readonly json?: true;
}

const examples = `
Examples:
  mtl plan -- --preset gpt2-124m --bf16
  mtl plan -- --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 \\
    --max-position-embeddings 1024 --micro-batch-size 4 --tokenizer-type GPT2BPETokenizer
  mtl plan --num-processes 8 --memory 80 -- --preset megatron-8.3b --bf16 --tensor-model-parallel-size 8
  mtl plan --num-processes 512 --tflops 30 -- --preset megatron-8.3b --bf16 --tensor-model-parallel-size 8 \\
    --global-batch-size 512 --train-iters 300000
  mtl plan --model bert --num-processes 2 -- --preset megatron-bert-1.3b --bf16 --tensor-model-parallel-size 2

For a BERT the prediction assumes samples that fill their sequences. Padding is not computed: shorter samples need less.`;

/** Values for required flags that a plan does not use: memory and time of a step do not depend on them. */
const unusedWithTime: Flags = { lr: 1, 'data-path': ['bundled'] };
const unused: Flags = { ...unusedWithTime, 'train-iters': 1_000_000_000 };

/** Vocabulary of the bundled corpus, whose tokenizer exists only once it is prepared. */
const defaultVocabularySize = 4096;

/**
 * `mtl plan`: the memory that each process of a training run will take, and its time, before it is started.
 */
export function planCommand(): Command {
  return newCommand('plan', 'predict the memory of each process of a training run, and its time')
    .argument('[flags...]', 'the flags of the training run, after --')
    .addOption(
      choiceOption('--model <kind>', 'the model that the flags describe', ['gpt', 'bert']).default('gpt'),
    )
    .addOption(countOption('--num-processes <n>', 'processes of the training run').default(1))
    .addOption(
      numberOption('--memory <GiB>', 'memory of each process; prints what would make the run fit', {
        above: 0,
      }),
    )
    .addOption(
      numberOption(
        '--tflops <rate>',
        'model TFLOP/s of each process; prints how long the training run takes',
        {
          above: 0,
        },
      ),
    )
    .option('--json', 'print JSON, in bytes and seconds')
    .addHelpText('after', examples)
    .action(plan);
}

async function plan(argv: readonly string[], flags: PlanFlags): Promise<void> {
  const { model, numProcesses, memory, tflops, json } = flags;
  const parsed = parseFlags(argv, { model, unused: tflops === undefined ? unused : unusedWithTime });
  const loaded = withLoadedFlags(parsed, await readLoadedFlags(parsed));
  const configuration = validateConfiguration(loaded, { worldSize: numProcesses });
  checkPredictable(configuration);
  const vocabularySize = await vocabularySizeOf(configuration);
  const shape = memoryShapeOf(configuration, vocabularySize);
  const prediction = predictMemory(shape);
  const stages = predictStages(shape);
  const limit = memory === undefined ? undefined : memory * 2 ** 30;
  const time =
    tflops === undefined ? undefined : predictTime(configuration, { vocabularySize, teraflops: tflops });
  if (json === true) {
    const fits = limit === undefined ? {} : { fits: prediction.total <= limit };
    const each = stages.length === 1 ? {} : { stages };
    process.stdout.write(`${JSON.stringify({ ...prediction, ...fits, ...each, time })}\n`);
    return;
  }
  process.stdout.write(configuration.notices.map((notice) => `note: ${notice}\n`).join(''));
  process.stdout.write(
    shape.pipeline === undefined
      ? `each of ${numProcesses} process(es), one micro-batch at a time\n${formatPrediction(prediction)}`
      : formatStages(shape.pipeline, stages),
  );
  if (limit !== undefined) process.stdout.write(formatAdvice(shape, { prediction, limit, numProcesses }));
  if (time !== undefined) process.stdout.write(formatTime(time));
}

async function vocabularySizeOf({ data, model }: PretrainingConfiguration): Promise<number> {
  if (model.vocabularySize !== undefined) return model.vocabularySize;
  if (data.tokenizer === undefined) return defaultVocabularySize;
  return (await createTokenizer(data.tokenizer)).vocabularySize;
}

function formatPrediction(prediction: MemoryPrediction): string {
  return formatTable(Object.entries(prediction).map(([name, bytes]) => [name, formatBytes(bytes)] as const));
}

/** A line for each stage: what it holds, and its memory. */
function formatStages({ schedule, numLayers }: PipelineShape, stages: readonly MemoryPrediction[]): string {
  const rows = stages.map((prediction, stage) => {
    const layers = numLayers.filter((_, chunk) => schedule.placement[chunk] === stage);
    const parts = Object.entries(prediction).map(([name, bytes]) => `${name} ${formatBytes(bytes)}`);
    return [`stage ${stage}`, `${layers.join(' + ')} layers: ${parts.join(', ')}`] as const;
  });
  return `schedule ${schedule.name}, ${schedule.numMicroBatches} micro-batches a step\n${formatTable(rows)}`;
}

function formatTime({ iterations, tokens, flops, iterationSeconds, seconds }: TimePrediction): string {
  const count = (value: number): string => value.toLocaleString('en-US');
  return formatTable([
    [
      'training',
      `${count(iterations)} iterations, ${count(tokens)} tokens, ${flops.toExponential(2)} model FLOPs`,
    ],
    ['iteration', `${formatDuration(iterationSeconds * 1000)} with the full batch`],
    ['time', `${formatDuration(seconds * 1000)}, evaluation and checkpoints not counted`],
  ]);
}

interface AdviceOptions {
  readonly prediction: MemoryPrediction;
  readonly limit: number;
  readonly numProcesses: number;
}

function formatAdvice(shape: MemoryShape, { prediction, limit, numProcesses }: AdviceOptions): string {
  if (prediction.total <= limit) return `fits into ${formatBytes(limit)}\n`;
  const rows = memorySavings(shape, numProcesses).map(({ flags, shape: change }) => {
    const { total } = predictMemory({ ...shape, ...change });
    return [flags, `${formatBytes(total)}${total <= limit ? ', fits' : ''}`] as const;
  });
  return `does not fit into ${formatBytes(limit)}; with one change:\n${formatTable(rows)}`;
}
