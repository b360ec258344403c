import { availableParallelism } from 'node:os';
import type { OptionsOf } from '@mtl/configuration';
import { inferenceFlags } from '@mtl/configuration/internal';
import type { Tokenizer, TokenizerOptions } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import type { Sampling } from '@mtl/inference';
import { type Device, type DType, setNumThreads } from '@mtl/kernels';
import { type LoadedGpt, loadGptForInference } from '@mtl/saved-models';
import type { Command } from 'commander';
import type { MissingWord } from './command-line-error.js';
import { addFlags, tokenizerOfFlags } from './flag-options.js';
import { type MtlCommand, newCommand } from './new-command.js';
import { countOption, numberOption } from './option-values.js';
import { alone, type SharingProcesses } from './sharing-processes.js';

/** Values of the options of `newModelCommand`. */
export type ModelFlagValues = OptionsOf<typeof inferenceFlags> & { readonly device: Device };

/** Returns a new command with the flags that name a trained model and how it computes. */
export const newModelCommand = (name: string, description: string): MtlCommand =>
  addFlags(newCommand(name, description), inferenceFlags, { filled: true });

/** Returns the missing flag that names a model; empty where one is given. */
export function missingModel({ load, loadHf }: Partial<ModelFlagValues>): readonly MissingWord[] {
  if (load !== undefined || loadHf !== undefined) return [];
  return [{ name: '--load (or --load-hf)', usage: '--load DIR' }];
}

/**
 * Loads the model that the flags name; what is worth hearing goes to standard error.
 *
 * @param sharing the processes that share it; default: this one alone
 */
export async function loadModelOfFlags(
  flags: ModelFlagValues,
  { processes, numLocal, isFirst }: SharingProcesses = alone,
): Promise<LoadedGpt> {
  if (flags.bf16 === true && flags.fp16 === true) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', '--bf16 and --fp16: a model computes in one of them', {
      remedy: 'leave one of them out',
    });
  }
  const dtype: DType = flags.bf16 === true ? 'bfloat16' : flags.fp16 === true ? 'float16' : 'float32';
  setNumThreads(flags.threads ?? Math.max(1, Math.floor(availableParallelism() / numLocal)), {
    // processes of a host would all pin theirs to the same cores
    pin: numLocal === 1,
  });
  return await loadGptForInference({
    load: flags.load,
    checkpointStep: flags.ckptStep,
    loadHuggingFace: flags.loadHf,
    loadLora: flags.loadLora,
    device: flags.device,
    dtype,
    tokenizer: tokenizerOfFlags(flags) as TokenizerOptions | undefined,
    processes,
    onNotice: (notice) => {
      if (isFirst) process.stderr.write(`${notice}\n`);
    },
  });
}

/**
 * Returns the tokenizer of a model.
 * @throws ConfigurationError MTL_TOKENIZER_MISSING when it came without one
 */
export function requiredTokenizer({ tokenizer, path }: Pick<LoadedGpt, 'tokenizer' | 'path'>): Tokenizer {
  if (tokenizer !== undefined) return tokenizer;
  throw new ConfigurationError('MTL_TOKENIZER_MISSING', `no tokenizer came with ${path}`, {
    expected: 'tokenizer.json, or vocab.json and merges.txt, in the folder of the weights',
    remedy: 'pass --tokenizer-type GPT2BPETokenizer, or HuggingFaceTokenizer with --tokenizer-model',
  });
}

/** Values of the options of `addSamplingFlags`. */
export interface SamplingFlagValues {
  readonly temperature: number;
  readonly topK?: number;
  readonly topP: number;
  readonly seed: number;
}

/** Adds the flags that say how tokens are chosen. */
export function addSamplingFlags<Kind extends Command>(
  command: Kind,
  defaults: { readonly temperature: number; readonly topP: number },
): Kind {
  return command
    .addOption(
      numberOption('--temperature <t>', 'How evenly tokens are chosen; 0: always the most probable token.', {
        least: 0,
      }).default(defaults.temperature),
    )
    .addOption(countOption('--top-k <k>', 'Chooses among the k most probable tokens only. [all]'))
    .addOption(
      numberOption('--top-p <p>', 'Chooses among the most probable tokens whose probabilities sum to p.', {
        above: 0,
        most: 1,
      }).default(defaults.topP),
    )
    .addOption(
      countOption('--seed <n>', 'Seed of the choices: the same seed gives the same text.', {
        least: 0,
      }).default(0),
    );
}

/** Returns how tokens are chosen, by the values of the flags. */
export function samplingOf({ temperature, topK, topP }: SamplingFlagValues): Sampling {
  return { temperature, topP, ...(topK === undefined ? {} : { topK }) };
}
