import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import {
  camelCase,
  checksOfFlags,
  flagFacts,
  type ParallelFlags,
  parallelFlagNames,
  type RecomputeFlags,
  readFlagValue,
  readTokenizerFlags,
  recomputeFlagNames,
  type TrackingFlags,
  trackingFlagNames,
} from '@mtl/configuration/flags';
import { ConfigurationError, listedNames, rewordError } from '@mtl/errors';
import { checkOptions, listOption, numberOption, type OptionChecks } from '@mtl/errors/options';
import type { TokenizerOptions } from '@mtl/tokenizers';
import type { FineTuningConfiguration } from './fine-tuning-configuration.js';
import {
  type CompleteFineTuningOptions,
  defaultedFineTuningFlags,
  type FineTuningOptions,
  fineTuningFlags,
  missingFineTuningFlags,
} from './fine-tuning-flags.js';
import { fineTuningPreset } from './fine-tuning-presets.js';

/**
 * Returns the checked configuration of the fine-tuning run that the options describe.
 *
 * ```ts
 * configureFineTuning({ task: 'qqp', dataDir: 'glue/QQP', load: 'runs/bert', seeds: [1, 2, 3] });
 * ```
 *
 * @throws ConfigurationError `MTL_OPTION` for an unknown option, whose message contains the nearest option;
 *   `MTL_FLAG_VALUE` for a value of the wrong type or out of range; the codes of `fineTuningConfiguration`.
 *   All messages use the names of options.
 */
export function configureFineTuning(options: FineTuningOptions): FineTuningConfiguration {
  checkOptions(options, { of: 'a fine-tuning', checks: fineTuningOptionChecks });
  const { seeds } = options;
  const read: Record<string, unknown> = {};
  try {
    for (const [flag, schema] of Object.entries(fineTuningFlags)) {
      const key = camelCase(flag);
      const value = (options as Readonly<Record<string, unknown>>)[key];
      if (value === undefined) continue;
      read[key] = readFlagValue({ name: flag, schema, value, where: 'in the options', isTyped: true });
    }
    const missing = missingFineTuningFlags(read as FineTuningOptions);
    if (missing.length > 0) {
      const verb = missing.length === 1 ? 'is' : 'are';
      throw new ConfigurationError(
        'MTL_FLAG_REQUIRED',
        `${listedNames(missing.map(({ name }) => name))} ${verb} missing`,
        { expected: missing.map(({ usage }) => usage).join('; ') },
      );
    }
    return fineTuningConfiguration({ ...(read as FineTuningOptions), seeds });
  } catch (error) {
    throw inWordsOfFineTuning(error);
  }
}

/** Replaces flag names in an error by option names: `--clip-grad` becomes `clipGrad`. */
const inWordsOfFineTuning = (error: unknown): unknown =>
  rewordError(error, (text) =>
    text.replace(/(?<![\w-])--([a-z][a-z0-9-]*)/g, (written: string, name: string) =>
      name in fineTuningFlags || name === 'seeds' ? camelCase(name) : written,
    ),
  );

/** The checks of fine-tuning options, derived from the flags' schemas. */
const fineTuningOptionChecks = {
  ...checksOfFlags(fineTuningFlags, inWordsOfFineTuning),
  // This checks only the type; `checkedSeeds` checks the values.
  seeds: listOption(numberOption, { what: 'an array of seeds' }),
} as OptionChecks<FineTuningOptions>;

/**
 * Returns the fine-tuning configuration for options whose individual values have been checked, such as the
 * values on a command line.
 *
 * @param how.isRestart true if a launcher has restarted the job, which then resumes. Default: false
 * @throws ConfigurationError MTL_FLAG_REQUIRED, MTL_FLAG_NEEDS, MTL_FLAG_VALUE. The messages use the names of
 *   flags
 */
export function fineTuningConfiguration(
  given: FineTuningOptions,
  how: { readonly isRestart?: boolean } = {},
): FineTuningConfiguration {
  const options = withDefaults(given);
  const { data, presetTask } = describeData(options);
  const preset = fineTuningPreset(options.preset ?? 'megatron-336m', presetTask);
  const { epochs = preset.epochs, globalBatchSize = preset.globalBatchSize } = options;
  const { lr: learningRate = preset.learningRate, save } = options;
  const configuration = {
    task: options.task!,
    data,
    start: chooseStart(options),
    sequenceLength: options.seqLength,
    spans: {
      documentStride: options.docStride,
      maximumQueryLength: options.maxQueryLength,
      maximumAnswerLength: options.maxAnswerLength,
    },
    epochs,
    globalBatchSize,
    microBatchSize: options.microBatchSize,
    optimizer: {
      learningRate,
      minLearningRate: options.minLr,
      decayStyle: options.lrDecayStyle,
      warmupFraction: options.lrWarmupFraction,
      weightDecay: options.weightDecay,
      clipGrad: options.clipGrad,
    },
    dropout: options.dropout,
    precision: options.bf16 === true ? 'bf16' : options.fp16 === true ? 'fp16' : 'fp32',
    parallel: flagsIn(options, parallelFlagNames) as ParallelFlags,
    recompute: flagsIn(options, recomputeFlagNames) as RecomputeFlags,
    checkpoint: {
      save,
      saveHuggingFace: options.saveHf,
      saveInterval: options.saveInterval,
      keepLast: options.keepLast,
      // a run restarted by a launcher must resume
      resume: options.resume === true || (how.isRestart === true && save !== undefined),
    },
    logInterval: options.logInterval,
    metricsJsonl: options.metricsJsonl,
    tracking: flagsIn(options, trackingFlagNames) as TrackingFlags,
    exitInterval: options.exitInterval,
    seeds: checkedSeeds(options.seeds ?? [1234]),
  } as const;
  return { ...configuration, flags: recordedFlags(options, configuration) };
}

/**
 * Returns `seeds` if they are valid: at least one seed, no duplicates, and integers in [0, 2^32).
 *
 * @throws ConfigurationError MTL_FLAG_VALUE
 */
export function checkedSeeds(seeds: readonly number[]): readonly number[] {
  const areSeeds = seeds.every((seed) => Number.isSafeInteger(seed) && seed >= 0 && seed < 2 ** 32);
  if (areSeeds && seeds.length > 0 && new Set(seeds).size === seeds.length) return seeds;
  throw new ConfigurationError('MTL_FLAG_VALUE', `--seeds ${seeds.join(',')} cannot be used`, {
    expected: 'different whole numbers below 2^32 with commas between them, such as 1,2,3,4,5',
  });
}

function withDefaults(options: FineTuningOptions): CompleteFineTuningOptions {
  const defaults = defaultedFineTuningFlags.map((name) => [
    camelCase(name),
    flagFacts.get(fineTuningFlags[name])!.default,
  ]);
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries([...defaults, ...given]) as CompleteFineTuningOptions;
}

/** Returns the defined values of the options for the flags `names`, keyed by flag name. */
function flagsIn(options: object, names: readonly string[]): Readonly<Record<string, unknown>> {
  const values = options as Readonly<Record<string, unknown>>;
  const entries = names.map((name) => [name, values[camelCase(name)]] as const);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

/** Returns flags that reproduce the run, even without the preset and the folder that provided some values. */
function recordedFlags(
  options: CompleteFineTuningOptions,
  run: Omit<FineTuningConfiguration, 'flags'>,
): Readonly<Record<string, unknown>> {
  const { dataDir: _, preset: __, squadVersion: ___, ...kept } = options;
  return flagsIn(
    {
      fromScratch: false,
      bf16: false,
      fp16: false,
      ...kept,
      trainData: run.data.train,
      validData: run.data.valid,
      testData: run.data.test,
      epochs: run.epochs,
      globalBatchSize: run.globalBatchSize,
      lr: run.optimizer.learningRate,
      layerNormPlacement: run.start.scratch?.layerNormPlacement,
      resume: run.checkpoint.resume,
    },
    Object.keys(fineTuningFlags),
  );
}

/** Returns the official names of a task's files. For SQuAD, they depend on the version. */
function officialFiles({ task, squadVersion, dataDir }: FineTuningOptions) {
  switch (task!) {
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

function describeData(options: FineTuningOptions) {
  const { task, dataDir, trainData, validData, testData = [], squadVersion } = options;
  const isWhole = trainData !== undefined && validData !== undefined;
  const files = isWhole ? undefined : officialFiles(options);
  const train = trainData ?? join(dataDir!, files!.train);
  const valid = validData ?? files!.valid.map((name) => join(dataDir!, name));
  // the version determines which row of the paper's table applies
  const isSecond = squadVersion === '2.0' || (squadVersion === undefined && basename(train).includes('2.0'));
  return {
    data: { train, valid, test: testData },
    presetTask: task === 'squad' ? (isSecond ? 'squad-2.0' : 'squad-1.1') : task!,
  } as const;
}

function chooseStart(options: FineTuningOptions): FineTuningConfiguration['start'] {
  const { numLayers, hiddenSize, numAttentionHeads, layerNormPlacement = 'pre' } = options;
  const tokenizer = readTokenizerFlags({
    'tokenizer-type': options.tokenizerType,
    'tokenizer-model': options.tokenizerModel,
    'vocab-file': options.vocabFile,
  });
  return {
    load: options.load,
    checkpointStep: options.ckptStep,
    loadHuggingFace: options.loadHf,
    initialWeights: options.fromScratch === true,
    scratch:
      numLayers === undefined || hiddenSize === undefined || numAttentionHeads === undefined
        ? undefined
        : { numLayers, hiddenSize, numAttentionHeads, layerNormPlacement },
    tokenizer: tokenizer as TokenizerOptions | undefined,
  };
}
