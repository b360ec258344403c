import type { RecomputeFlags } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import type { MissingWord } from '../../command-line/missing-words.js';
import type { FinetuneFlags } from './finetune-flags.js';

type GivenFlags = Partial<FinetuneFlags> & {
  readonly recomputeGranularity?: RecomputeFlags['recompute-granularity'];
};

/**
 * Names the flags that a fine-tuning run lacks: those of files to train and to evaluate on, and of a model.
 *
 * @throws ConfigurationError MTL_FLAG_CONFLICT for flags that contradict each other
 */
export function missingFinetuneFlags(flags: GivenFlags): readonly MissingWord[] {
  refuseConflicts(flags);
  return [...missingFiles(flags), ...missingStart(flags)];
}

function refuseConflicts({ task, squadVersion, bf16, fp16, ...flags }: GivenFlags): void {
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
  const { load, loadHf, numLayers, hiddenSize, numAttentionHeads } = flags;
  const model = load === undefined ? loadHf && '--load-hf' : '--load';
  if (model !== undefined && (numLayers ?? hiddenSize ?? numAttentionHeads) !== undefined) {
    conflict(`${model} and the sizes of a model from scratch name more than one model`);
  }
  const { recomputeActivations, recomputeGranularity = 'selective' } = flags;
  if (recomputeActivations === true && recomputeGranularity !== 'selective') {
    conflict(
      '--recompute-activations and --recompute-granularity full: --recompute-activations means --recompute-granularity selective',
    );
  }
}

function missingFiles({ dataDir, trainData, validData }: GivenFlags): readonly MissingWord[] {
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
function missingStart(flags: GivenFlags): readonly MissingWord[] {
  const { load, loadHf, numLayers, hiddenSize, numAttentionHeads, tokenizerType } = flags;
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
