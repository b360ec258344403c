import { ConfigurationError } from '@mtl/errors';
import type { FineTuningOptions } from './fine-tuning-flags.js';

/** A flag that is missing. */
interface MissingFlag {
  /** With what may take its place: `--load (or --load-hf)`. */
  readonly name: string;
  /** How it is written: `--load DIR`. */
  readonly usage: string;
}

/**
 * Names the flags that a fine-tuning run lacks: those of files to train and to evaluate on, and of a model.
 *
 * @throws ConfigurationError MTL_FLAG_CONFLICT for flags that contradict each other
 */
export function missingFineTuningFlags(options: FineTuningOptions): readonly MissingFlag[] {
  refuseConflicts(options);
  const noTask = { name: '--task', usage: '--task mnli|qqp|race|squad' };
  return [
    ...(options.task === undefined ? [noTask] : []),
    ...missingFiles(options),
    ...missingStart(options),
  ];
}

function refuseConflicts({ task, squadVersion, bf16, fp16, ...options }: FineTuningOptions): void {
  const conflict = (what: string, remedy = 'leave one of them out'): never => {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', what, { remedy });
  };
  if (squadVersion !== undefined && task !== undefined && task !== 'squad') {
    conflict(
      `--squad-version does not go with --task ${task}`,
      'leave --squad-version out, or pass --task squad',
    );
  }
  if (bf16 === true && fp16 === true) conflict('--bf16 and --fp16: a model computes in one of them');
  const { load, loadHf, numLayers, hiddenSize, numAttentionHeads } = options;
  const model = load === undefined ? loadHf && '--load-hf' : '--load';
  if (model !== undefined && (numLayers ?? hiddenSize ?? numAttentionHeads) !== undefined) {
    conflict(`${model} and the sizes of a model from scratch name more than one model`);
  }
}

function missingFiles({ dataDir, trainData, validData }: FineTuningOptions): readonly MissingFlag[] {
  if (dataDir !== undefined) return [];
  if (trainData === undefined && validData === undefined) {
    return [{ name: '--data-dir (or --train-data and --valid-data)', usage: '--data-dir DIR' }];
  }
  return [
    ...(trainData === undefined ? [{ name: '--train-data', usage: '--train-data PATH' }] : []),
    ...(validData === undefined ? [{ name: '--valid-data', usage: '--valid-data PATHS...' }] : []),
  ];
}

/** A checkpoint and a directory of the transformers library have their sizes and their tokenizer. */
function missingStart(options: FineTuningOptions): readonly MissingFlag[] {
  const { load, loadHf, numLayers, hiddenSize, numAttentionHeads, tokenizerType } = options;
  if (load !== undefined || loadHf !== undefined) return [];
  const sizes = {
    '--num-layers': numLayers,
    '--hidden-size': hiddenSize,
    '--num-attention-heads': numAttentionHeads,
  };
  const missing = Object.entries(sizes).filter(([, size]) => size === undefined);
  if (missing.length === 3) {
    const name = '--load (or --load-hf, or --num-layers, --hidden-size and --num-attention-heads)';
    return [{ name, usage: '--load DIR' }];
  }
  return [
    ...missing.map(([name]) => ({ name, usage: `${name} N` })),
    ...(tokenizerType === undefined
      ? [{ name: '--tokenizer-type', usage: '--tokenizer-type BertWordPieceLowerCase|BertWordPieceCase' }]
      : []),
  ];
}
