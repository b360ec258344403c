import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { OptionsOf } from '@mtl/configuration';
import { inferenceFlags } from '@mtl/configuration/flags';
import { ConfigurationError } from '@mtl/errors';
import { parseRepository } from '@mtl/hub';
import type { Sampling } from '@mtl/inference';
import { type Device, type DType, hostInformation, setNumThreads } from '@mtl/kernels';
import { type LoadedGpt, loadGptForInference } from '@mtl/runs';
import { downloadAdvice } from '@mtl/runs/internal';
import type { Tokenizer, TokenizerOptions } from '@mtl/tokenizers';
import type { Command } from 'commander';
import type { MissingWord } from './command-line-error.js';
import { addFlags, tokenizerOfFlags } from './flag-options.js';
import { type MtlCommand, newCommand } from './new-command.js';
import { countOption, numberOption } from './option-values.js';
import { alone, type SharingProcesses } from './sharing-processes.js';

/** Values of the options of `newModelCommand`. */
export type ModelFlagValues = OptionsOf<typeof inferenceFlags> & { readonly device: Device };

/** Returns a new command with the flags for a trained model and its computation. */
export const newModelCommand = (name: string, description: string): MtlCommand =>
  addFlags(newCommand(name, description), inferenceFlags, { filled: true });

/**
 * Returns the flag that accepts a model's directory: `load-hf` for a directory of the transformers library,
 * which contains a config.json, and `load` for a directory of checkpoints. The name of a model on the Hub,
 * `org/name`, belongs to `load-hf`, unless a path of this name exists.
 *
 * @param directory the value of `flag`, or of an operand if `flag` is empty
 * @throws ConfigurationError MTL_MODEL_NONE if the directory does not exist
 */
export function flagOfModel(directory: string, flag: string): 'load' | 'load-hf' {
  if (existsSync(join(directory, 'config.json'))) return 'load-hf';
  if (existsSync(directory)) return 'load';
  if (parseRepository(directory) !== undefined) return 'load-hf';
  throw new ConfigurationError('MTL_MODEL_NONE', `${`${flag} ${directory}`.trim()}: no such directory`, {
    expected:
      'the --save of a training run, a Hugging Face directory (config.json, tokenizer.json, model.safetensors), or org/name on the Hub',
    remedy: downloadAdvice(directory),
    details: { directory },
  });
}

/**
 * Returns the flags with the model that was given as an operand, if any.
 *
 * @throws MTL_FLAG_CONFLICT
 */
export function withModelDirectory<Values extends ModelFlagValues>(
  flags: Values,
  directory: string | undefined,
): Values {
  if (directory === undefined) return flags;
  const other = flags.load ?? flags.loadHf;
  if (other !== undefined) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', `${directory} and ${other} are two models`, {
      remedy: 'leave out one',
    });
  }
  const isHuggingFace = flagOfModel(directory, '') === 'load-hf';
  return { ...flags, ...(isHuggingFace ? { loadHf: directory } : { load: directory }) };
}

/** The operand that names a model on the command line, instead of a flag. */
export const modelOperand = [
  '[dir]',
  'The model: the --save of a run (as --load), a transformers directory, or org/name on the Hub (as --load-hf).',
] as const;

/**
 * Returns the operand for a model if it is missing, or an empty list if the operand or a flag names a model.
 */
export function missingModelOrDirectory(
  { load, loadHf }: Partial<ModelFlagValues>,
  directory: string | undefined,
): readonly MissingWord[] {
  if ((directory ?? load ?? loadHf) !== undefined) return [];
  return [{ name: '--load (or --load-hf, or the directory alone)', usage: 'DIR' }];
}

/** Returns the flag for a model if it is missing, or an empty list if a flag names a model. */
export function missingModel({ load, loadHf }: Partial<ModelFlagValues>): readonly MissingWord[] {
  if (load !== undefined || loadHf !== undefined) return [];
  return [{ name: '--load (or --load-hf)', usage: '--load DIR' }];
}

/**
 * Loads the model that flags name. Notices are printed to standard error.
 *
 * @param sharing the processes that share the model. Default: only this process
 */
export async function loadModelOfFlags(
  flags: ModelFlagValues,
  { processes, numLocal, isFirst }: SharingProcesses = alone,
): Promise<LoadedGpt> {
  if (flags.bf16 === true && flags.fp16 === true) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', '--bf16 and --fp16: a model computes in only one', {
      remedy: 'leave out one',
    });
  }
  const dtype: DType = flags.bf16 === true ? 'bfloat16' : flags.fp16 === true ? 'float16' : 'float32';
  const cores = Math.max(1, Math.floor(availableParallelism() / numLocal));
  setNumThreads(flags.threads ?? Math.min(cores, hostInformation().mostThreads), {
    // threads are not pinned if a host has several processes, because all processes would pin their threads
    // to the same cores
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
 * @throws ConfigurationError MTL_TOKENIZER_MISSING if the model has no tokenizer
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

/** Adds the flags for sampling: temperature, top-k and top-p. */
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

/** Returns the sampling settings from the values of the flags. */
export function chooseSampling({ temperature, topK, topP }: SamplingFlagValues): Sampling {
  return { temperature, topP, ...(topK === undefined ? {} : { topK }) };
}
