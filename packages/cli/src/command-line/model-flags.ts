import { availableParallelism } from 'node:os';
import { inferenceFlags, type OptionsOf } from '@mtl/configuration';
import type { TokenizerOptions } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import { type Device, type DType, setNumThreads } from '@mtl/kernels';
import { type LoadedGpt, loadGptForInference } from '@mtl/saved-models';
import { addFlags } from './flag-options.js';
import type { MissingWord } from './missing-words.js';
import { type MtlCommand, newCommand } from './new-command.js';
import { alone, type SharingProcesses } from './sharing-processes.js';
import { tokenizerOfFlags } from './tokenizer-flags.js';

/** Values of the options of `newModelCommand`. */
export type ModelFlagValues = OptionsOf<typeof inferenceFlags> & { readonly device: Device };

/** A new command with the flags that name a trained model and how it computes. */
export const newModelCommand = (name: string, description: string): MtlCommand =>
  addFlags(newCommand(name, description), inferenceFlags, { filled: true });

/** The flag that names a model, where none does. */
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
