import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { ParallelFlags, RecomputeFlags, TrackingFlags } from '@mtl/configuration';
import type { TokenizerOptions } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import {
  type FineTuningConfiguration,
  type FineTuningPresetName,
  type FineTuningTaskName,
  fineTuningPreset,
} from '@mtl/recipes';
import { tokenizerOfFlags } from '../../command-line/tokenizer-flags.js';

/**
 * Values of the options of `mtl finetune`, but those of `parallelFlagNames`, `recomputeFlagNames` and
 * `trackingFlagNames`.
 */
export interface FinetuneFlags {
  readonly task: FineTuningTaskName;
  readonly dataDir?: string;
  readonly trainData?: string;
  readonly validData?: string[];
  readonly testData?: string[];
  readonly squadVersion?: '1.1' | '2.0';
  readonly load?: string;
  readonly ckptStep?: number;
  readonly loadHf?: string;
  readonly fromScratch?: true;
  readonly numLayers?: number;
  readonly hiddenSize?: number;
  readonly numAttentionHeads?: number;
  readonly layerNormPlacement?: 'pre' | 'post';
  readonly tokenizerType?: string;
  readonly tokenizerModel?: string;
  readonly vocabFile?: string;
  readonly preset?: FineTuningPresetName;
  readonly epochs?: number;
  readonly globalBatchSize?: number;
  readonly microBatchSize: number;
  readonly lr?: number;
  readonly minLr: number;
  readonly lrDecayStyle: 'linear' | 'cosine' | 'constant';
  readonly lrWarmupFraction: number;
  readonly weightDecay: number;
  readonly clipGrad: number;
  readonly dropout?: number;
  readonly seqLength?: number;
  readonly docStride: number;
  readonly maxQueryLength: number;
  readonly maxAnswerLength: number;
  readonly seeds: readonly number[];
  readonly save?: string;
  readonly saveHf?: string;
  readonly resume?: true;
  readonly saveInterval?: number;
  readonly keepLast: number;
  readonly exitInterval?: number;
  readonly logInterval: number;
  readonly metricsJsonl?: string;
  readonly recomputeActivations?: true;
  readonly bf16?: true;
  readonly fp16?: true;
  readonly json?: true;
}

/** Seeds of a list with commas. @throws ConfigurationError MTL_FLAG_VALUE */
export function seedList(text: string): number[] {
  const seeds = text.split(',').map((seed) => (/^\d+$/.test(seed) ? Number(seed) : Number.NaN));
  const areSeeds = seeds.every((seed) => Number.isSafeInteger(seed) && seed < 2 ** 32);
  if (areSeeds && new Set(seeds).size === seeds.length) return seeds;
  throw new ConfigurationError('MTL_FLAG_VALUE', `--seeds ${text} cannot be used`, {
    expected: 'different whole numbers below 2^32 with commas between them, such as 1,2,3,4,5',
  });
}

/** Settings of `mtl finetune` that are not about the task. */
export interface FinetuneSurroundings {
  readonly parallel: ParallelFlags;
  readonly recompute: RecomputeFlags;
  readonly tracking: TrackingFlags;
  /** Whether a launcher has started it again. */
  readonly isRestart: boolean;
}

/** What the flags of `mtl finetune` say. @throws ConfigurationError MTL_FLAG_* */
export function configurationOfFlags(
  flags: FinetuneFlags,
  { parallel, recompute, tracking, isRestart }: FinetuneSurroundings,
): FineTuningConfiguration {
  const { data, presetTask } = dataOf(flags);
  const preset = fineTuningPreset(flags.preset ?? 'megatron-336m', presetTask);
  const { lrDecayStyle: decayStyle, lrWarmupFraction: warmupFraction, weightDecay, clipGrad } = flags;
  return {
    task: flags.task,
    data,
    start: startOf(flags),
    sequenceLength: flags.seqLength,
    spans: {
      documentStride: flags.docStride,
      maximumQueryLength: flags.maxQueryLength,
      maximumAnswerLength: flags.maxAnswerLength,
    },
    epochs: flags.epochs ?? preset.epochs,
    globalBatchSize: flags.globalBatchSize ?? preset.globalBatchSize,
    microBatchSize: flags.microBatchSize,
    optimizer: {
      learningRate: flags.lr ?? preset.learningRate,
      minLearningRate: flags.minLr,
      decayStyle,
      warmupFraction,
      weightDecay,
      clipGrad,
    },
    dropout: flags.dropout,
    precision: flags.bf16 === true ? 'bf16' : flags.fp16 === true ? 'fp16' : 'fp32',
    parallel,
    recompute,
    checkpoint: {
      save: flags.save,
      saveHuggingFace: flags.saveHf,
      saveInterval: flags.saveInterval,
      keepLast: flags.keepLast,
      // what a launcher starts again goes on
      resume: flags.resume === true || (isRestart && flags.save !== undefined),
    },
    logInterval: flags.logInterval,
    metricsJsonl: flags.metricsJsonl,
    tracking,
    exitInterval: flags.exitInterval,
  };
}

/** The official names of a task's files; of SQuAD they depend on the version. */
function officialFiles({ task, squadVersion, dataDir }: FinetuneFlags) {
  switch (task) {
    case 'mnli':
      return { train: 'train.tsv', valid: ['dev_matched.tsv', 'dev_mismatched.tsv'] };
    case 'qqp':
      return { train: 'train.tsv', valid: ['dev.tsv'] };
    case 'race':
      return { train: 'train', valid: ['dev'] };
    case 'squad': {
      const version = squadVersion ?? versionIn(dataDir);
      return { train: `train-v${version}.json`, valid: [`dev-v${version}.json`] };
    }
  }
}

function versionIn(directory: string | undefined): '1.1' | '2.0' {
  const versions = (['1.1', '2.0'] as const).filter(
    (version) => directory !== undefined && existsSync(join(directory, `train-v${version}.json`)),
  );
  if (versions.length === 1) return versions[0]!;
  throw new ConfigurationError(
    'MTL_FLAG_REQUIRED',
    versions.length === 0
      ? `${directory ?? 'no --data-dir'}: no train-v1.1.json or train-v2.0.json`
      : `${directory} holds SQuAD 1.1 and 2.0`,
    { expected: '--squad-version 1.1 or --squad-version 2.0' },
  );
}

function dataOf(flags: FinetuneFlags) {
  const { task, dataDir, trainData, validData, testData = [], squadVersion } = flags;
  const isWhole = trainData !== undefined && validData !== undefined;
  const files = isWhole ? undefined : officialFiles(flags);
  const train = trainData ?? join(dataDir!, files!.train);
  const valid = validData ?? files!.valid.map((name) => join(dataDir!, name));
  // the version decides the paper's row
  const isSecond = squadVersion === '2.0' || (squadVersion === undefined && basename(train).includes('2.0'));
  return {
    data: { train, valid, test: testData },
    presetTask: task === 'squad' ? (isSecond ? 'squad-2.0' : 'squad-1.1') : task,
  } as const;
}

function startOf(flags: FinetuneFlags): FineTuningConfiguration['start'] {
  const { numLayers, hiddenSize, numAttentionHeads, layerNormPlacement } = flags;
  const tokenizer = tokenizerOfFlags(flags);
  return {
    load: flags.load,
    checkpointStep: flags.ckptStep,
    loadHuggingFace: flags.loadHf,
    initialWeights: flags.fromScratch === true,
    scratch:
      numLayers === undefined || hiddenSize === undefined || numAttentionHeads === undefined
        ? undefined
        : { numLayers, hiddenSize, numAttentionHeads, layerNormPlacement: layerNormPlacement ?? 'pre' },
    tokenizer: tokenizer as TokenizerOptions | undefined,
  };
}
